"""Whose model it is, and so who closes it."""

from __future__ import annotations

from runtime.protocol import Runtime


def closed_with(model: Runtime, owns_model: bool | None) -> bool:
    """Whether an agent or a host closes the model that it was given when it is closed itself.

    It does what the program said. Where the program said nothing, the model is the program's, which may go on using it.
    The one exception is a model that says ``ends_with_agent`` of itself, as ``fakes.ScriptedModel`` does.
    """
    return bool(getattr(model, "ends_with_agent", False)) if owns_model is None else owns_model
