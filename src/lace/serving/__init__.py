"""Serving many: a server, what it grants to whom, and what it counts."""
