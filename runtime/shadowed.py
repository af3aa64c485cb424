"""Importing this raises an error if another file hides one of the packages."""

from __future__ import annotations

from importlib.util import find_spec
from os.path import dirname

_face = find_spec("cogstep")
if _face is not None and dirname(dirname(_face.origin or "")) == dirname(dirname(__file__)):
    # Not so where a program has a file `cogstep.py` of its own: nothing here needs that name, and importing it would
    # run the program once more.
    import cogstep.packages  # noqa: F401
