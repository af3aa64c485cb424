"""Things that hold models: llama.cpp and MLX behind one protocol. Start with ``load_model``.

Importing this imports no backend: each is loaded when a model needs it.
"""

from runtime.errors import (
    ExtraMissingError,
    LoadCancelledError,
    ModelFileError,
    ModelLoadError,
    ModelNotFoundError,
    ModelSpecError,
    RuntimeClosedError,
    TemplateError,
)
from runtime.loading import LoadProgress, load_model
from runtime.protocol import Done, Generation, ModelInfo, Runtime, Timings

__all__ = [
    "Done",
    "ExtraMissingError",
    "Generation",
    "LoadCancelledError",
    "LoadProgress",
    "ModelFileError",
    "ModelInfo",
    "ModelLoadError",
    "ModelNotFoundError",
    "ModelSpecError",
    "Runtime",
    "RuntimeClosedError",
    "TemplateError",
    "Timings",
    "load_model",
]
