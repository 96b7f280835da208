"""What drives the core: the clock, and bulk work over several processes."""
