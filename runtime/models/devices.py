"""What a backend computes on, as it says itself: for ``cogstep doctor``. Imports the backend that is asked about."""

from __future__ import annotations

import importlib

from runtime.models.specs import BackendName


def device_of(backend: BackendName) -> str:
    """Where an installed backend runs a model: ``"CPU"``, ``"GPU"`` or ``"Metal GPU"``.

    Raises:
        ImportError, OSError: the package is installed and can't be loaded.
    """
    if backend == "llama":
        import llama_cpp.llama_cpp as native

        # Built with support for a GPU that it also finds; which layers go there is the loader's choice.
        return "GPU" if native.llama_supports_gpu_offload() else "CPU"
    mx = importlib.import_module("mlx.core")
    if mx.default_device() != mx.Device(mx.gpu):
        return "CPU"
    return "Metal GPU" if mx.metal.is_available() else "GPU"
