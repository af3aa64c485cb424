"""What is wrong with a test's own script."""

from __future__ import annotations

from cognition import CogstepError


class ScriptError(CogstepError):
    """A script and what happened don't fit together. It passes through the agent, so that the test fails with it."""
