"""A switch that keeps real models out of a test run, in this process and in those that it starts.

The switch is an environment variable, since child processes (a model host, ``cogstep run``) inherit it. Nothing sets it
by itself; cogstep's pytest plugin does, where it is asked to.
"""

from __future__ import annotations

import os

from cognition import CogstepError

VARIABLE = "COGSTEP_REAL_MODELS"
BLOCKED = "blocked"
"""The value that blocks; any other one, and none, allows."""


class RealModelBlockedError(CogstepError):
    """A real model was loaded or asked while real models are blocked."""


def check_allowed(what: str) -> None:
    """To be called before a real model is loaded or asked.

    Args:
        what: what is about to be done, such as ``"load the small model"``.

    Raises:
        RealModelBlockedError: it must not be.
    """
    if os.environ.get(VARIABLE) == BLOCKED:
        raise RealModelBlockedError(
            f"real models are blocked here, and something was about to {what}. Use fakes.ScriptedModel or a cassette; "
            f"or allow it: mark the test with @pytest.mark.real_model, or outside of pytest unset {VARIABLE}"
        )
