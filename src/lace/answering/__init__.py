"""Answering what an exchange asks: from a store, with what is known of a link."""
