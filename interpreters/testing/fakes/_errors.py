"""Errors of a test's own script."""

from __future__ import annotations

from cognition import CogstepError


class ScriptError(CogstepError):
    """A script does not match the events. The error passes through the agent, so that the test fails with it."""
