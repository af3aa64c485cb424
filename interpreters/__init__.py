"""Interpreters carry out the decisions of the pure core: agents, drivers, tools, recordings and fakes.

Importing this package loads no backend (``runtime.load_model`` does), and a name's module only at the name's first
use, so that ``cogstep --help`` answers quickly. The public names are listed in ``_public``.
"""

from __future__ import annotations

from importlib.util import find_spec as _find_spec
from os.path import dirname as _dirname
from typing import TYPE_CHECKING, Any

_cogstep = _find_spec("cogstep")
if _cogstep is not None and _dirname(_dirname(_cogstep.origin or "")) == _dirname(_dirname(__file__)):
    # Raises if another file hides one of the packages. Not for a program whose own file is called `cogstep.py`: nothing
    # here needs that name, and importing it would run the program a second time. `runtime.shadowed` does the same for a
    # program that imports only that package. It can't be asked here, since `runtime` may be the hidden one.
    import cogstep.packages  # noqa: F401

from cognition.base.face import load as _load, public_names as _public_names  # noqa: E402 - after the look above

if TYPE_CHECKING:
    from interpreters._public import *  # noqa: F403 - the list of public names, as type checkers see them

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
