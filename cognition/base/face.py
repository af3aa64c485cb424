"""The public names of a package, each loaded at its first use.

A package lists them in its module ``_public``, as ordinary imports: type checkers read these, and each name is written
once. Here the code of that module runs with an import function that only notes where each name comes from. So no
module of the package is imported, and it works without source files too (zip files, frozen programs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

PUBLIC = "_public"


class _Anything:
    """The result of an import that does not happen: it has every attribute."""

    def __getattr__(self, name: str) -> _Anything:
        return self


def public_names(package: str) -> dict[str, str]:
    """Return the public names of a package, sorted, each with the module it comes from."""
    homes: dict[str, str] = {}

    def note(name: str, variables: object, local: object, names: Sequence[str] | None, level: int) -> _Anything:
        homes.update(dict.fromkeys(names or (), name))
        return _Anything()

    spec = find_spec(f"{package}.{PUBLIC}")
    if spec is None or spec.loader is None:
        raise ImportError(f"{package}.{PUBLIC} is missing: install cogstep again", name=package)
    module = module_from_spec(spec)
    vars(module)["__builtins__"] = {"__import__": note}
    spec.loader.exec_module(module)
    return dict(sorted(homes.items()))


def load(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Return a public name's value.

    Raises:
        AttributeError: the package has no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    home = import_module(homes[name])
    return getattr(home, name) if hasattr(home, name) else import_module(f"{homes[name]}.{name}")
