"""Things that hold models and notes: llama.cpp and MLX behind one protocol. Start with ``load_model``.

Importing this imports no backend: each is loaded when a model needs it.
"""

from runtime.errors import (
    ExtraMissingError,
    LoadCancelledError,
    MemoryStoreError,
    ModelFileError,
    ModelLoadError,
    ModelNotFoundError,
    ModelSpecError,
    RuntimeClosedError,
    TemplateError,
)
from runtime.loading import LoadProgress, load_model
from runtime.memory import Memory, Notes
from runtime.protocol import Done, Generation, ModelInfo, Runtime, Timings

__all__ = [
    "Done",
    "ExtraMissingError",
    "Generation",
    "LoadCancelledError",
    "LoadProgress",
    "Memory",
    "MemoryStoreError",
    "ModelFileError",
    "ModelInfo",
    "ModelLoadError",
    "ModelNotFoundError",
    "ModelSpecError",
    "Notes",
    "Runtime",
    "RuntimeClosedError",
    "TemplateError",
    "Timings",
    "load_model",
]
