"""Servers on the shipped model, each started once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cognition.wire.encoder import ENCODERS
from tests.runtime.conftest import load_or_skip
from tests.runtime.providers.servers import llama_server, mlx_server
from tests.runtime.providers.speaking import SpeakingServer
from tests.runtime.steering import Rig, Steering

pytest.importorskip("httpcore2", reason="the extra `remote` is not installed")

PATHS = {
    dialect: path
    for dialect, path in {"openai": "/v1", "anthropic": "/v1", "ollama": "/api"}.items()
    if dialect in ENCODERS
}
"""What stands before the routes of each dialect."""

KEY = "sk-test-0123456789abcdef"
"""What our own servers want to be sent."""


@pytest.fixture(scope="session")
def llama_port() -> Iterator[int]:
    """A real llama-server."""
    with llama_server() as port:
        yield port


@pytest.fixture(scope="session")
def mlx_port() -> Iterator[int]:
    """A real mlx_lm.server."""
    with mlx_server() as port:
        yield port


@pytest.fixture(scope="session")
def behind() -> Iterator[tuple[SpeakingServer, Steering]]:
    """A server of ours that speaks for the shipped model, and orders to its engine."""
    with load_or_skip("llama") as local:
        server = SpeakingServer(local, key=KEY)
        yield server, Steering(local._owner, server.cancelled, server.submitted)
        server.close()


def rig_of_server(server: SpeakingServer, steering: Steering, runtime: object) -> Rig:
    """A remote runtime, and orders to the engine behind it."""
    return Rig(runtime, lambda name, *arguments: getattr(steering, name)(*arguments))  # type: ignore[arg-type]  # remote
