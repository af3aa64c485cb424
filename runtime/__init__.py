"""Runtimes for models, and memory stores: llama.cpp, MLX and other programs behind one protocol. See ``load_model``.

Importing this imports no backend; each is imported when a model needs it. The public names are listed in ``_public``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import runtime.shadowed  # noqa: F401 - raises if another file hides one of the packages
from cognition.base.face import load as _load, public_names as _public_names

if TYPE_CHECKING:
    from runtime._public import *  # noqa: F403 - the list of public names, as type checkers see them

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
