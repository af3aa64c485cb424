"""The pure core of cogstep: an agent's logic as one function, ``step(state, input) -> Transition``.

Nothing in this package reads a clock, draws randomness, or does I/O, threads or async. Start with ``LLMEngine``.
The public names are listed in ``_public``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cognition.base.face import load as _load, public_names as _public_names

if TYPE_CHECKING:
    from cognition._public import *  # noqa: F403 - the list of public names, as type checkers see them

_HOMES = _public_names(__name__)

if not TYPE_CHECKING:  # a type checker can't compute it, and takes the names from the import above
    __all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Return a public name, loaded at its first use."""
    value = _load(__name__, _HOMES, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
