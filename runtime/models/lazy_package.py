"""Import one module of a package without all the rest of it.

``import llama_cpp.llama_cpp`` and ``import mlx_lm.models.qwen3`` run their packages' ``__init__`` first, which imports
things that we don't use: 0.2 s and 1.2 s on an idle machine, before a model that loads in 0.05 s.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_lock = threading.RLock()

READ_FROM_OUTSIDE = ("__all__", "__version__")
"""Of the names with underscores, those for which the package is really imported. The others are looked for in all
modules by tools that only walk through them."""


class _LazyPackage(ModuleType):
    """A package whose ``__init__`` runs when something that it defines is asked for."""

    def __getattr__(self, name: str) -> Any:
        # Only called for what is missing: submodules that have been imported are there.
        with _lock:
            if "_loaded" not in self.__dict__ and (not name.startswith("__") or name in READ_FROM_OUTSIDE):
                self.__dict__["_loaded"] = True  # beforehand: __init__ may ask for what it has not defined yet
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
                return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def import_lazily(package: str) -> None:
    """Make a package known, so that its modules can be imported and its ``__init__`` waits until it is needed.

    Does nothing where the package is imported already, or is not installed: then importing says so.
    """
    with _lock:
        if package in sys.modules:
            return
        spec = importlib.util.find_spec(package)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return
        sys.modules[package] = _of_spec(spec)


def _of_spec(spec: Any) -> ModuleType:
    module = _LazyPackage(spec.name)
    module.__spec__ = spec
    module.__loader__ = spec.loader
    module.__file__ = spec.origin
    module.__package__ = spec.name
    module.__path__ = list(spec.submodule_search_locations)
    return module
