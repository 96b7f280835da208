"""Imported before anything that the extra brings: without it, the error says how to install it."""

from lace.extras import require

require("lake", "the lake")
