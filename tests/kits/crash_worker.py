"""The processes that ``crashes.py`` kills: agents with a recording, which charge and ship each job once.

The program listens on a port, which it prints, and forks a process for each connection. The process reads the path of
its recording from the first line, and writes ``{"pid": NUMBER}``. Each further line is a request as JSON,
``{"job": TEXT}`` or ``{"state": true}``. Before an effect counts as done, the process writes
``{"effect": KIND, "job": TEXT}`` and waits for a line. Its last line for a request has the key ``done``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any, TextIO

from cognition import AssistantMessage, ModelRequest, ToolMessage, UserMessage
from interpreters import Agent, fakes, tool
from interpreters.tools.tool import Tool


class Line:
    """The connection of this process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, value: dict[str, Any]) -> None:
        self._stream.write(f"{json.dumps(value)}\n")
        self._stream.flush()

    def read(self) -> str:
        """Return the next line; empty at the end."""
        return self._stream.readline().rstrip("\n")

    def tools(self) -> list[Tool[..., Any]]:
        @tool
        def charge(job: str) -> str:
            """Charge the customer."""
            self.write({"effect": "charge", "job": job})
            self.read()
            return f"charged for {job}"

        @tool
        def ship(job: str) -> str:
            """Ship the parcel."""
            self.write({"effect": "ship", "job": job})
            self.read()
            return f"shipped {job}"

        return [charge, ship]


def reply(request: ModelRequest) -> fakes.Script:
    """Call both tools, one after the other, and answer."""
    last = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
    job = request.messages[last].text  # type: ignore[union-attr]  # the user's message
    results = [message for message in request.messages[last:] if isinstance(message, ToolMessage)]
    return (fakes.call("charge", job=job), fakes.call("ship", job=job), f"{job} is done.")[len(results)]


def jobs(agent: Agent) -> list[list[str]]:
    """Return each message of the user's, with the answer to it."""
    found: list[list[str]] = []
    for message in agent.state.history:
        if isinstance(message, UserMessage) and message.origin == "user":
            found.append([message.text])
        elif isinstance(message, AssistantMessage) and message.text:
            found[-1].append(message.text)
    return found


def work(line: Line) -> None:
    """Serve one connection."""
    path = Path(line.read())
    line.write({"pid": os.getpid()})
    model, tools = fakes.FunctionModel(reply), line.tools()
    agent = Agent.resume(path, model, tools) if path.exists() else Agent(model, tools, journal=path)
    with agent:
        if agent.unfinished:
            agent.resume_turn()
        while text := line.read():
            request = json.loads(text)
            if "job" in request and request["job"] not in [job for job, *_ in jobs(agent)]:
                agent.run(request["job"])
            line.write({"done": jobs(agent)})


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system clears ended processes away
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                work(Line(connection.makefile("rw", encoding="utf-8")))
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main()
