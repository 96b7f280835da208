"""Records: built, validated, explained, split from streams, turned into facts (010, 020)."""

from lace.record.build import build_blob, build_plex, seal
from lace.record.facts import Fact, RecordLink, facts, fields, links
from lace.record.inspect import Check, Inspection, inspect_record
from lace.record.model import Blob, Plex, Record, Seal, Versioned
from lace.record.split import BrokenFrame, Frame, RecordSplitter, split_records
from lace.record.validate import validate_record

__all__ = [
    "Blob",
    "BrokenFrame",
    "Check",
    "Fact",
    "Frame",
    "Inspection",
    "Plex",
    "Record",
    "RecordLink",
    "RecordSplitter",
    "Seal",
    "Versioned",
    "build_blob",
    "build_plex",
    "facts",
    "fields",
    "inspect_record",
    "links",
    "seal",
    "split_records",
    "validate_record",
]
