"""Spark looks for modules named like this one and registers their ``DefaultSource`` by itself."""

from lace.lake.source import LaceDataSource

DefaultSource = LaceDataSource
