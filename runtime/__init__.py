"""Things that hold models and notes: llama.cpp and MLX behind one protocol. Start with ``load_model``.

Importing this imports no backend: each is loaded when a model needs it.
"""

import runtime.hidden  # noqa: F401 - says it when another file hides one of the packages
from runtime.errors import (
    ExtraMissingError,
    LoadCancelledError,
    MemoryStoreError,
    ModelFileError,
    ModelLoadError,
    ModelNotFoundError,
    ModelOptionsError,
    ModelProcessError,
    ModelSpecError,
    ReleasedError,
    RuntimeClosedError,
    SavedCacheError,
    ServerClosedError,
    TemplateError,
)
from runtime.isolated.frozen import freeze_support
from runtime.isolated.settings import Isolation
from runtime.llama_options import Adapter, LlamaOptions, Rope
from runtime.loading import LoadProgress, load_model
from runtime.memory import Memory, Notes
from runtime.protocol import Done, Generation, ModelInfo, Runtime, Timings
from runtime.server import ModelServer, ServedModel, SharedRuntime

__all__ = [
    "Adapter",
    "Done",
    "ExtraMissingError",
    "Generation",
    "Isolation",
    "LlamaOptions",
    "LoadCancelledError",
    "LoadProgress",
    "Memory",
    "MemoryStoreError",
    "ModelFileError",
    "ModelInfo",
    "ModelLoadError",
    "ModelNotFoundError",
    "ModelOptionsError",
    "ModelProcessError",
    "ModelServer",
    "ModelSpecError",
    "Notes",
    "ReleasedError",
    "Rope",
    "Runtime",
    "RuntimeClosedError",
    "SavedCacheError",
    "ServedModel",
    "ServerClosedError",
    "SharedRuntime",
    "TemplateError",
    "Timings",
    "freeze_support",
    "load_model",
]
