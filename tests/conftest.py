"""Settings for all tests."""

from __future__ import annotations

import os
import signal
import tempfile

import pytest
from hypothesis import Phase, settings

from cognition import codec

# What tests record is sealed, and no key of the person who runs them is used or made for it.
_state = tempfile.TemporaryDirectory(prefix="cogstep-tests-")
os.environ["XDG_STATE_HOME"] = _state.name

# No test of ours is about time, and the machines that run them are shared: a slow example is no failure.
settings.register_profile("cogstep", deadline=None, print_blob=True)
# For `make mutants`: thousands of runs, each of which only has to say whether a test fails, always in the same way.
settings.register_profile(
    "mutants",
    parent=settings.get_profile("cogstep"),
    max_examples=20,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("cogstep")


# A shell starts background jobs with Ctrl-C ignored, which they and their children inherit: tests of Ctrl-C would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_converter_from_before() -> None:
    """Under mutation the codec's converter and hooks are made in each test: older ones know nothing of the mutation."""
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")  # set by mutmut; "stats" while it learns which test reaches what
    if mutant == "stats" or mutant.startswith("cognition.codec."):
        for kept in vars(codec).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()
