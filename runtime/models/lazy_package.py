"""Import one module of a package without the rest of it.

``import llama_cpp.llama_cpp`` and ``import mlx_lm.models.qwen3`` first run their packages' ``__init__``, which imports
unused modules: 0.2 s and 1.2 s on an idle machine, before a model that loads in 0.05 s.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_lock = threading.RLock()

READ_FROM_OUTSIDE = ("__all__", "__version__")
"""Underscored names that trigger the real import of the package. Tools that walk through all modules look for others.
"""


class _LazyPackage(ModuleType):
    """A package whose ``__init__`` runs on first access to one of its names."""

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
    """Register a package so that its modules can be imported, while its ``__init__`` waits until it is needed.

    Does nothing if the package is already imported or not installed; importing it then raises as usual.
    """
    with _lock:
        if package in sys.modules:
            return
        spec = importlib.util.find_spec(package)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return
        module = _LazyPackage(spec.name)
        module.__spec__ = spec
        module.__loader__ = spec.loader
        module.__file__ = spec.origin
        module.__package__ = spec.name
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[package] = module
