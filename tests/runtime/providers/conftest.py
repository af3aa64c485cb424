"""Servers on the shipped model, each started once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache

import pytest

from tests.runtime.conftest import load_or_skip
from tests.runtime.providers.servers import llama_cpp_server, llama_server, mlx_server
from tests.runtime.providers.speaking import SpeakingServer
from tests.runtime.steering import Rig, Steering

pytest.importorskip("httpcore2", reason="the extra `remote` is not installed")

PATHS = {"openai": "/v1", "anthropic": "/v1", "ollama": "/api", "responses": "/v1"}
"""What stands before the routes of each dialect."""

KEY = "sk-test-0123456789abcdef"
"""What our own servers want to be sent."""


@pytest.fixture(scope="session")
def llama_port() -> Iterator[int]:
    """A real llama-server."""
    with llama_server() as port:
        yield port


@pytest.fixture(scope="session")
def llama_cpp_port() -> Iterator[int]:
    """A real llama_cpp.server."""
    with llama_cpp_server() as port:
        yield port


@pytest.fixture(scope="session")
def mlx_port() -> Iterator[int]:
    """A real mlx_lm.server."""
    with mlx_server() as port:
        yield port


Behind = tuple[SpeakingServer, Steering]


@pytest.fixture(scope="session")
def behind() -> Iterator[Callable[[str], Behind]]:
    """Servers of ours that speak for the shipped model, and orders to their engines: one for each dialect, so that none
    finds in its cache what another one was asked.
    """
    with ExitStack() as held:

        @cache
        def start(_dialect: str) -> Behind:
            local = held.enter_context(load_or_skip("llama"))
            server = held.enter_context(closing(SpeakingServer(local, key=KEY)))
            return server, Steering(local._owner, server.cancelled, server.submitted)

        yield start


def rig_of_server(server: SpeakingServer, steering: Steering, runtime: object) -> Rig:
    """A remote runtime, and orders to the engine behind it."""
    return Rig(runtime, lambda name, *arguments: getattr(steering, name)(*arguments))  # type: ignore[arg-type]  # remote
