"""Driving a connection: without any input or output, over a stream, or between two laces here."""
