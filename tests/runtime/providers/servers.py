"""Other people's servers, started on the shipped model: llama.cpp's ``llama-server``, llama-cpp-python's
``llama_cpp.server`` and ``mlx_lm.server``.

``llama-server`` has to be compiled, which takes minutes: ``make servers`` does it, once, from the source of the
installed llama-cpp-python. Where it is not there, its tests are skipped.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from benchmarks.native_tools import program, started
from runtime.models.specs import SMALL_MODEL

PATIENCE = 60.0
"""Seconds within which a server has to be ready."""

TRIES = 3
"""Ports that are tried: between asking for a free one and taking it, somebody else may."""


def llama_server_or_skip() -> Path:
    """The program."""
    known = os.environ.get("COGSTEP_LLAMA_SERVER") or shutil.which("llama-server")
    if known:
        return Path(known)
    if find_spec("llama_cpp") is not None and program("llama-server").is_file():
        return program("llama-server")
    pytest.skip("there is no llama-server here: make servers compiles it")


@contextmanager
def llama_server(context: int = 2048, slots: int = 4) -> Iterator[int]:
    """The port of a llama-server that has the shipped model, each slot with a context of so many tokens."""
    model = next(iter(sorted(SMALL_MODEL.glob("*.gguf"))))
    command = [
        llama_server_or_skip(), "-m", model, "-c", context * slots, "-np", slots, "-t", 1, "-tb", 1,
        "--host", "127.0.0.1", "--jinja",
    ]  # fmt: skip
    with serving([str(part) for part in command]) as port:
        yield port


@contextmanager
def llama_cpp_server() -> Iterator[int]:
    """The port of a llama_cpp.server that has the shipped model, and lets a reply end before it begins another one."""
    for package in ("llama_cpp", "fastapi", "pydantic_settings", "sse_starlette", "starlette_context", "uvicorn"):
        if find_spec(package) is None:
            pytest.skip(f"llama_cpp.server needs {package}, which is not installed")
    model = next(iter(sorted(SMALL_MODEL.glob("*.gguf"))))
    command = [
        sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--n_ctx", "2048", "--host", "127.0.0.1",
        "--n_threads", "1", "--n_threads_batch", "1", "--interrupt_requests", "False",
    ]  # fmt: skip
    with serving(command, path="/v1/models") as port:
        yield port


@contextmanager
def mlx_server() -> Iterator[int]:
    """The port of an mlx_lm.server that has the shipped model."""
    if find_spec("mlx_lm") is None:
        pytest.skip("the extra `mlx` is not installed")
    command = [sys.executable, "-m", "mlx_lm.server", "--model", str(SMALL_MODEL / "mlx"), "--log-level", "WARNING"]
    with serving(command, {"HF_HUB_OFFLINE": "1"}) as port:
        yield port


@contextmanager
def serving(command: Sequence[str], environment: dict[str, str] | None = None, path: str = "/health") -> Iterator[int]:
    """The port of a server that is ready, and is gone when the block is left. ``path``: where a ready one answers."""
    for attempt in range(TRIES):
        port = free_port()
        with (
            TemporaryFile("w+") as log,
            started(
                [*command, "--port", str(port)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            ) as process,
        ):
            due = time.monotonic() + PATIENCE
            while process.poll() is None and not ready(port, path) and time.monotonic() < due:
                time.sleep(0.05)
            if process.poll() is None and ready(port, path):
                yield port
                return
            log.seek(0)
            said = log.read()[-2000:]
        if attempt == TRIES - 1 or "in use" not in said:
            raise RuntimeError(f"{command[0]} did not become ready: {said}")


def free_port() -> int:
    """A port of the loopback device that nobody listens on."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def ready(port: int, path: str) -> bool:
    """Whether the server says that it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
