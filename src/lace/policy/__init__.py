"""Exchange policy: two selectors become one plan, and a peer sees only what is exposed (040)."""
