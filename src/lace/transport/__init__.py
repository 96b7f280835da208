"""Byte streams between processes: addresses, and one contract for every way to connect."""
