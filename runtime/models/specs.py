"""Resolves a model spec to a local file or directory, checked before native code sees it.

- ``None``: the small model that ships with cogstep
- ``path/to/model.gguf``: a GGUF file, for llama.cpp
- ``path/to/directory``: an MLX model: ``config.json``, ``tokenizer.json``, ``model*.safetensors``
- ``hf:owner/repo``: an MLX model, or the GGUF file, of a repository on the Hugging Face hub
- ``hf:owner/repo/file``: one GGUF file of it
- ``hf:owner/repo@rev/file``, ``hf:owner/repo@rev``: the same at a branch, tag or commit
"""

from __future__ import annotations

import importlib.util
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from attrs import frozen

from runtime.errors import ExtraMissingError, ModelFileError, ModelNotFoundError, ModelSpecError
from runtime.files import UnusableFileError, open_regular
from runtime.models.installation import install_line, install_lines
from runtime.models.mlx_files import check_mlx_directory

BackendName = Literal["llama", "mlx"]

SMALL_MODEL = Path(__file__).parent.parent / "small_model"

PACKAGES: dict[BackendName, str] = {"llama": "llama_cpp", "mlx": "mlx_lm"}
"""Packages that each backend needs, in the order of preference for the shipped model: on a CPU llama.cpp generates
about twenty times as fast as MLX, and loads as fast.
"""

FORMS = (
    "a .gguf file, an MLX directory, hf:owner/repo[@rev][/file], openai/NAME and the like for a model behind a server, "
    "or nothing for the model that ships with cogstep"
)

WEIGHTS = (".gguf", ".safetensors", ".bin", ".pt")
"""How names of files with weights end, of which llama.cpp reads the first."""

GGUF_VERSIONS = (2, 3)
"""Versions that llama.cpp reads. Version 1 of 2023 is unsupported."""


@frozen
class Source:
    """A local model and the backend that can load it."""

    backend: BackendName
    path: Path


def resolve(
    spec: str | Path | None, backend: BackendName | None, on_download: Callable[[float], bool] = lambda _fraction: True
) -> Source:
    """Find the model of a spec, download it if necessary, and check its format.

    Args:
        spec: see above.
        backend: the backend to use; None selects by format.
        on_download: called with the fraction downloaded, 0 to 1; returning False cancels it.

    Raises:
        ModelLoadError: one of its subclasses, with a one-line remedy.
    """
    if backend is not None and backend not in PACKAGES:
        raise ModelSpecError(f"there is no backend {backend!r}; use one of: {', '.join(PACKAGES)}", spec=str(spec))
    if spec is None:
        source = _shipped_source(backend)
    else:
        text = str(spec)
        if text.startswith("hf:"):
            from runtime.models.hub import fetch  # only here: it belongs to an extra

            path = fetch(text, backend, on_download)
        else:
            path = Path(text).expanduser()
        source = _local(path, text)
    if backend is not None and source.backend != backend:
        kinds = {"llama": "a GGUF file, which llama.cpp loads", "mlx": "an MLX directory, which MLX loads"}
        raise ModelSpecError(f"{source.path} is {kinds[source.backend]}; leave out backend={backend!r}", spec=str(spec))
    require(source.backend, str(spec or ""))
    return source


def is_installed(backend: BackendName) -> bool:
    """Return whether a backend's package is installed; imports nothing."""
    return importlib.util.find_spec(PACKAGES[backend]) is not None


def device_of(backend: BackendName) -> str:
    """Return the device that an installed backend uses: ``"CPU"``, ``"GPU"`` or ``"Metal GPU"``. Imports the backend.

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


def require(backend: BackendName, spec: str) -> None:
    """Raise ``ExtraMissingError`` unless the backend is installed."""
    if not is_installed(backend):
        name = {"llama": "llama.cpp", "mlx": "MLX"}[backend]
        raise ExtraMissingError(
            f"{name} is not installed, which this model needs: {install_line(backend)}",
            extra=backend,
            spec=spec,
        )


def _shipped_source(backend: BackendName | None) -> Source:
    backend = backend or next((name for name in PACKAGES if is_installed(name)), None)
    if backend is None:
        raise ExtraMissingError(
            f"no backend is installed: {install_lines('llama', 'mlx')} (llama.cpp or MLX)", extra="llama"
        )
    if backend == "mlx":
        return _mlx_directory(SMALL_MODEL / "mlx", "")
    files = sorted(SMALL_MODEL.glob("*.gguf"))
    if not files:
        raise ModelNotFoundError(f"the small model is missing from {SMALL_MODEL}; install cogstep again")
    return _gguf_file(files[0], "")


def _local(path: Path, spec: str) -> Source:
    if not spec.strip():
        raise ModelSpecError(f"an empty text names no model; use {FORMS}", spec=spec)
    try:
        if path.is_dir():
            return _mlx_directory(path, spec)
        if path.exists():
            return _gguf_file(path, spec)
    except UnusableFileError as error:
        raise ModelFileError(f"{error}; a model is {FORMS}", spec=spec) from error
    except PermissionError as error:
        raise ModelFileError(f"{path} may not be read ({error.strerror}); see to its permissions", spec=spec) from error
    if re.match(r"[A-Za-z][A-Za-z0-9+_-]+:", spec):  # two letters at least: one may be a drive
        raise ModelSpecError(f"{spec!r} names no model in a form that is known; use {FORMS}", spec=spec)
    on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", spec) and not spec.endswith(".gguf")
    hint = f"for the Hugging Face hub, write hf:{spec}" if on_hub else f"a model is {FORMS}"
    if re.fullmatch(r"[A-Za-z][\w.-]*\d[\w.-]*", spec, re.ASCII) and not spec.endswith(WEIGHTS):
        hint = f"for a model behind a server, write ollama/{spec}, openai/{spec} or the like; {hint}"
    raise ModelNotFoundError(f"there is no file or directory {path}; {hint}", spec=spec)


def _mlx_directory(path: Path, spec: str) -> Source:
    check_mlx_directory(path, spec=spec)
    return Source("mlx", path)


def _gguf_file(path: Path, spec: str) -> Source:
    """Check that a file starts like GGUF: ``GGUF``, the version (4 bytes), numbers of tensors and keys (8 each)."""
    with open_regular(path) as stream:
        head = stream.read(24)
    if not head.startswith(b"GGUF"):
        what = "is empty" if not head else "is no GGUF file"
        raise ModelFileError(f"{path} {what}; a model is {FORMS}", spec=spec)
    if len(head) < 24:
        raise ModelFileError(f"{path} is cut short; fetch it again", spec=spec)
    (version,) = struct.unpack_from("<I", head, 4)
    if version not in GGUF_VERSIONS:
        raise ModelFileError(
            f"{path} is GGUF of version {version}, and llama.cpp reads {' and '.join(map(str, GGUF_VERSIONS))}; "
            "fetch a newer conversion of the model",
            spec=spec,
        )
    return Source("llama", path)
