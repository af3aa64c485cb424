"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test of ours is about time, and the machines that run them are shared: a slow example is no failure.
settings.register_profile("cogstep", deadline=None, print_blob=True)
settings.load_profile("cogstep")
