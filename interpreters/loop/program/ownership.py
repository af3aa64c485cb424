"""Decide who closes a model."""

from __future__ import annotations

from runtime.protocol.model import Runtime


def is_closed_with(model: Runtime, owns_model: bool | None) -> bool:
    """Return whether closing an agent or a host also closes the model that the program passed in.

    ``owns_model`` decides if it is not None. By default the program keeps the model, as it may use it further. The
    exception is a model with ``ends_with_agent``, such as ``fakes.ScriptedModel``.
    """
    return bool(getattr(model, "ends_with_agent", False)) if owns_model is None else owns_model
