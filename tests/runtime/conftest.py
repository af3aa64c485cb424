"""The shipped model, loaded once for each backend and test session."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from runtime import LlamaOptions, load_model
from runtime.local.handles import LocalRuntime

PACKAGES = {"llama": "llama_cpp", "mlx": "mlx_lm"}

BACKENDS = [pytest.param("llama", marks=pytest.mark.llama), pytest.param("mlx", marks=pytest.mark.mlx)]

POOL = pytest.param("llama in a pool", marks=pytest.mark.llama)
"""llama.cpp where all conversations share one pool of cells, as they do with large models."""

TINY_CONTEXT = 64


def installed_or_skip(backend: str) -> str:
    if find_spec(PACKAGES[backend]) is None:
        pytest.skip(f"the extra `{backend}` is not installed")
    return backend


def load_or_skip(backend: str, context_tokens: int | None = None) -> LocalRuntime:
    """``backend`` is one of ``BACKENDS``, or ``POOL``."""
    backend, _, pool = backend.partition(" in a ")
    installed_or_skip(backend)
    options = LlamaOptions(unified=True) if pool else None
    return load_model(backend=backend, context_tokens=context_tokens, options=options)  # type: ignore[arg-type]  # a name


@pytest.fixture(params=BACKENDS)
def backend_name(request: pytest.FixtureRequest) -> str:
    return installed_or_skip(request.param)


@pytest.fixture(scope="session", params=BACKENDS)
def runtime(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    with load_or_skip(request.param) as loaded:
        yield loaded


@pytest.fixture(scope="session", params=BACKENDS)
def tiny_runtime(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    """One with a context of ``TINY_CONTEXT`` tokens."""
    with load_or_skip(request.param, TINY_CONTEXT) as loaded:
        yield loaded


@pytest.fixture(params=BACKENDS)
def own_runtime(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    """One that a test may close."""
    with load_or_skip(request.param) as loaded:
        yield loaded
