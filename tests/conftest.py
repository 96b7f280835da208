"""Settings for every test."""

from hypothesis import settings

# No test depends on how fast the machine is.
settings.register_profile("lace", deadline=None)
settings.load_profile("lace")
