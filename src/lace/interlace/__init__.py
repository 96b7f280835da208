"""The exchange between two laces: facts, advertisements, partitions, negotiation, ticks (050)."""
