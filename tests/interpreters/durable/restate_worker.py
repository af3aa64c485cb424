"""One process that works at sessions: python restate_worker.py FOLDER STORE INGRESS ADMIN ADDRESS."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from interpreters.durable.definition import DurableAgent
from interpreters.durable.restate.sessions import RestateSessions
from tests.interpreters.durable.outside import agent_of


class Says(threading.Event):
    """Tells the test that the server knows this process."""

    def set(self) -> None:
        super().set()
        print("ready", flush=True)


def main(folder: str, store: str, ingress: str, admin: str, address: str) -> None:
    serve(agent_of(Path(folder)), store, ingress, admin, address)


def serve(agent: DurableAgent, store: str, ingress: str, admin: str, address: str) -> None:
    """Work at an agent's sessions until SIGTERM."""

    async def until_it_is_killed() -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        await sessions.serve_async(address, ended=ended, ready=Says())

    sessions = RestateSessions(agent, store, ingress=ingress, admin=admin)
    asyncio.run(until_it_is_killed())


if __name__ == "__main__":
    main(*sys.argv[1:])
