"""One namespace for the public names of cogstep's three packages.

``cogstep.Agent`` is ``interpreters.Agent``, ``cogstep.load_model`` is ``runtime.load_model``, ``cogstep.LLMEngine`` is
``cognition.LLMEngine``. No two packages share a public name. Each package is imported on first use of its names.

>>> import cogstep
>>> cogstep.ToolMessage("m3", "call-1-1-1", "multiply", "391")
ToolMessage(id='m3', call_id='call-1-1-1', name='multiply', content='391', status='ok')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cogstep.packages import NAMES, HiddenPackageError as HiddenPackageError

if TYPE_CHECKING:
    __version__: str
    from cognition import *  # noqa: F403 - their public names are the public names here
    from interpreters import *  # noqa: F403 - as above
    from runtime import *  # noqa: F403 - as above

if not TYPE_CHECKING:  # else a type checker would take these two for all, and find no name that is not there
    __all__ = ["HiddenPackageError", "__version__"]

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return _version()
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for package in map(import_module, reversed(NAMES)):
            if name in package.__all__:
                value = getattr(package, name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        names = (name for package in map(import_module, NAMES) for name in package.__all__)
        return sorted({*globals(), *__all__, *names})


def _version() -> str:
    # Looking it up takes longer than importing all this.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cogstep")
    except PackageNotFoundError:  # a source tree on Python's path that was not installed
        return "0"
