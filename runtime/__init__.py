"""Runtimes for models, and memory stores: llama.cpp, MLX and other programs behind one protocol. See ``load_model``.

Importing this imports no backend; each is imported when a model needs it.
"""

import types
import typing
from importlib import import_module as _import_module

import runtime.hidden  # noqa: F401 - says it when another file hides one of the packages
from runtime.children.frozen import freeze_support as freeze_support
from runtime.errors import (
    ExtraMissingError as ExtraMissingError,
    LoadCancelledError as LoadCancelledError,
    MediaError as MediaError,
    MemoryStoreError as MemoryStoreError,
    ModelFileError as ModelFileError,
    ModelLoadError as ModelLoadError,
    ModelNotFoundError as ModelNotFoundError,
    ModelOptionsError as ModelOptionsError,
    ModelProcessError as ModelProcessError,
    ModelSpecError as ModelSpecError,
    ReleasedError as ReleasedError,
    RuntimeClosedError as RuntimeClosedError,
    SavedCacheError as SavedCacheError,
    ServerClosedError as ServerClosedError,
    TemplateError as TemplateError,
    TemplateStoppedError as TemplateStoppedError,
)
from runtime.files import UnusableFileError as UnusableFileError
from runtime.isolated.settings import Isolation as Isolation
from runtime.llama.options import (
    Adapter as Adapter,
    LlamaOptions as LlamaOptions,
    Rope as Rope,
)
from runtime.loading import LoadProgress as LoadProgress, load_model as load_model
from runtime.programs.options import (
    ClaudeOptions as ClaudeOptions,
    CodexOptions as CodexOptions,
    McpServer as McpServer,
)
from runtime.protocol import (
    Done as Done,
    Generation as Generation,
    ModelInfo as ModelInfo,
    Runtime as Runtime,
    TextCounter as TextCounter,
    Timings as Timings,
)
from runtime.server import (
    ModelServer as ModelServer,
    ServedModel as ServedModel,
    SharedRuntime as SharedRuntime,
)
from runtime.stores.folder import (
    MemoryFile as MemoryFile,
    MemoryFolder as MemoryFolder,
    Passage as Passage,
)
from runtime.stores.memory import Memory as Memory, Notes as Notes

if typing.TYPE_CHECKING:
    from runtime.providers.backends import (
        BACKENDS as BACKENDS,
        Backend as Backend,
        Backends as Backends,
        Price as Price,
        Timeouts as Timeouts,
    )
    from runtime.requests import RequestEntry as RequestEntry, RequestRegistry as RequestRegistry

if not typing.TYPE_CHECKING:  # a type checker can't compute it, and takes the names from the imports above
    _AT_FIRST_USE = {
        **dict.fromkeys(("BACKENDS", "Backend", "Backends", "Price", "Timeouts"), "runtime.providers.backends"),
        **dict.fromkeys(("RequestEntry", "RequestRegistry"), "runtime.requests"),
    }
    """Modules of names that need the wire formats or asyncio. Importing them takes a fifth of the time of all the rest,
    and some megabytes in each model process.
    """

    __all__ = sorted(
        [
            *_AT_FIRST_USE,
            *(
                name
                for name, value in globals().items()
                if not (name.startswith("_") or isinstance(value, types.ModuleType))
            ),
        ]
    )

    def __getattr__(name: str) -> object:
        if name not in _AT_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(_import_module(_AT_FIRST_USE[name]), name)
        return value
