"""A switch that blocks real models in a test run, in this process and its child processes.

The switch is an environment variable, since child processes (a model host, ``cogstep run``) inherit it. Only cogstep's
pytest plugin sets it, on request.
"""

from __future__ import annotations

import os

from cognition import CogstepError

VARIABLE = "COGSTEP_REAL_MODELS"
BLOCKED = "blocked"
"""The value that blocks; any other value allows."""


class RealModelBlockedError(CogstepError):
    """A real model was loaded or asked while real models are blocked."""


def check_allowed(what: str) -> None:
    """Check that real models are allowed. Call it before loading or asking a real model.

    Args:
        what: the action, such as ``"load the small model"``.

    Raises:
        RealModelBlockedError: real models are blocked.
    """
    if os.environ.get(VARIABLE) == BLOCKED:
        raise RealModelBlockedError(
            f"real models are blocked here, and something was about to {what}. Use fakes.ScriptedModel or a cassette; "
            f"or allow it: mark the test with @pytest.mark.real_model, or outside of pytest unset {VARIABLE}"
        )
