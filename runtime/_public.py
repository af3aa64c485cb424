"""The public names of ``runtime``; see ``cognition.base.face``."""

from runtime.children.frozen import (
    freeze_support as freeze_support,
)
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
from runtime.files import (
    UnusableFileError as UnusableFileError,
)
from runtime.isolated.settings import (
    Isolation as Isolation,
)
from runtime.llama.options import (
    Adapter as Adapter,
    LlamaOptions as LlamaOptions,
    Rope as Rope,
)
from runtime.loading import (
    LoadProgress as LoadProgress,
    load_model as load_model,
)
from runtime.programs.options import (
    ClaudeOptions as ClaudeOptions,
    CodexOptions as CodexOptions,
    McpServer as McpServer,
)
from runtime.protocol.model import (
    Done as Done,
    Generation as Generation,
    ModelInfo as ModelInfo,
    Runtime as Runtime,
    TextCounter as TextCounter,
    Timings as Timings,
)
from runtime.providers.backends import (
    BACKENDS as BACKENDS,
    Backend as Backend,
    Backends as Backends,
    Price as Price,
    Timeouts as Timeouts,
)
from runtime.requests import (
    RequestEntry as RequestEntry,
    RequestRegistry as RequestRegistry,
)
from runtime.server import (
    ModelServer as ModelServer,
    ServedModel as ServedModel,
    SharedRuntime as SharedRuntime,
)
from runtime.stores.memory_folder import (
    MemoryFile as MemoryFile,
    MemoryFolder as MemoryFolder,
    Passage as Passage,
)
from runtime.stores.notes import (
    Memory as Memory,
    Notes as Notes,
)
