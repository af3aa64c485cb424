"""The device of a backend, as it reports it, for ``cogstep doctor``. Imports that backend."""

from __future__ import annotations

import importlib

from runtime.models.specs import BackendName


def device_of(backend: BackendName) -> str:
    """Return the device that an installed backend uses: ``"CPU"``, ``"GPU"`` or ``"Metal GPU"``.

    Raises:
        ImportError, OSError: the package is installed but cannot be loaded.
    """
    if backend == "llama":
        import llama_cpp.llama_cpp as native

        # Built with support for a GPU that it also finds; which layers go there is the loader's choice.
        return "GPU" if native.llama_supports_gpu_offload() else "CPU"
    mx = importlib.import_module("mlx.core")
    if mx.default_device() != mx.Device(mx.gpu):
        return "CPU"
    return "Metal GPU" if mx.metal.is_available() else "GPU"
