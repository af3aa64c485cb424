"""A child process that says whatever it is told to, at the moment it is told: a model's process that was taken over.

``Load.path`` is JSON: ``at`` names the message of the parent at which it stops being honest, ``say`` what it says then
(``ID`` stands for the number of that message), ``times`` how often (0: without end), ``begin`` and ``end`` what stands
around that, ``then`` what it does afterwards.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time

from cognition import Usage
from cognition.parsing import FormatSpec, TextDelta
from runtime.children.line_pipe import LineSplitter
from runtime.isolated import wire
from runtime.protocol.model import Done, ModelInfo, Timings

INFO = ModelInfo("evil", "test", "", 1000, FormatSpec("plain"))
DONE = Done("honest", "", (), (), "stop", Usage(1, 1), Timings())


def main() -> None:
    """Honest until the moment that it is told."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    lines = LineSplitter(wire.TO_CHILD)
    orders: dict[str, object] = {}
    while data := connection.recv(1 << 16):
        for line in lines.feed(data):
            message = wire.from_parent(line)
            if isinstance(message, wire.Load):
                orders = json.loads(message.path)
                threading.Thread(target=live, args=(connection, message.pulse), daemon=True).start()
            if orders.get("at") == message.tag:
                misbehave(connection, orders, getattr(message, "id", 0))
            else:
                answer(connection, message)


def live(connection: socket.socket, pulse: float) -> None:
    """Lives, and says that it gets on."""
    for step in itertools.count():
        time.sleep(pulse)
        connection.sendall(wire.encode(wire.Pulse(step)))


def answer(connection: socket.socket, message: wire.Message) -> None:
    match message:
        case wire.Load():
            connection.sendall(wire.encode(wire.Ready(INFO)))
        case wire.Submit(id=number):
            connection.sendall(wire.encode(wire.Produced(((number, TextDelta("honest")), (number, DONE)))))
        case wire.Count(id=number):
            connection.sendall(wire.encode(wire.Counted(number, 7)))
        case wire.CountTexts(id=number, texts=texts):
            connection.sendall(wire.encode(wire.Counted(number, 0, tuple(map(len, texts)))))
        case wire.Close():
            os._exit(0)
        case _:
            pass


def misbehave(connection: socket.socket, orders: dict[str, object], number: int) -> None:
    begin, said, end = (
        str(orders.get(name, "")).replace("ID", str(number)).encode("latin-1") for name in ("begin", "say", "end")
    )
    times = int(str(orders.get("times", 1)))
    try:
        connection.sendall(begin)
        for _ in range(times) if times else itertools.count():
            connection.sendall(said)
        connection.sendall(end)
    except OSError:
        os._exit(0)
    match orders.get("then"):
        case "exit":
            os._exit(0)
        case "close":
            connection.close()
            time.sleep(600)
        case "mute":
            time.sleep(600)
