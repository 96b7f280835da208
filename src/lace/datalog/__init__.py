"""Rules: read, judged, evaluated, kept up to date, explained (spec 030)."""
