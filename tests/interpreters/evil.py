"""Recordings that somebody wrote who meant no good, or had a fault: sealed anew, with values that nobody expects."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from cognition import Failure, MalformedToolCall, ModelRequest, Usage
from interpreters import Agent, Approval, fakes, tool
from interpreters.recording.journal.payloads import LARGE
from interpreters.recording.journal.seals import BEFORE, BEHIND, DIGITS_FROM, key_for_writing, start_hash
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime import Notes
from tests.interpreters.secrets import KEY

PAGE = "A page.\n" * (LARGE // 8)


def nested(depth: int, inside: Any = 1) -> Any:
    for _ in range(depth):
        inside = [inside]
    return inside


MISSING = object()
"""Stands for a field that is not there."""

EVIL: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "one": 1.0,
    "a fraction": 0.5,
    "huge": 10**18,
    "400 digits": 10**400,
    "4000 digits": 10**4000,
    "no float": 1e308,
    "infinite": float("inf"),
    "no number": float("nan"),
    "no text": "",
    "a text": "x",
    "half a character": "\ud83d",
    "a zero byte": "\0",
    "orders to a terminal": "\x1b]0;x\x07\x9b31m\x7f",
    "a long text": "x" * 10_000,
    "a tag": "user_spoke",
    "a secret": f"[redacted:x:{'9' * 18}]",
    "a list": [],
    "a list of lists": [[], [[]]],
    "a list of texts": ["x"],
    "an object": {},
    "an odd object": {"type": "user_spoke", "text": "x"},
    "an unknown tag": {"type": "sang"},
    "no payload": {"$payload": "a" * 64},
    "no name of one": {"$payload": "../x"},
    "a name that is none": {"$payload": {"$payload": nested(150)}},
    "deep": nested(150),
    "too deep": nested(600),
}


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return PAGE if n == 2 else f"{n} {KEY} \ud83d"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [look, pay]


def script() -> list[Any]:
    return [
        Failure("try again", kind="transient", retry_after=0.0),
        Reply("I look.", [call("look", n=1), call("look", n=2)], reasoning="Which?", usage=Usage(9, 3, 1, 0.5)),
        Reply(malformed=(MalformedToolCall("{", "cut"),)),
        [call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]), call("pay", amount=5)],
        [call("recall", query="cat"), call("remember", text="a"), call("update_tasks", tasks=[{"title": "t"}])],
        [
            call("spawn_worker", name="ann", objective="work"),
            call("spawn_worker", name="bob", objective="work", after=["ann"]),
        ],
        call("submit_plan", steps=["rest"]),
        call("finish_step"),
        "All is done.",
        "Hello again.",
        call("pay", amount=6),
        "Paid.",
    ]


class Actor(ScriptedModel):
    """Plays the script, and the workers."""

    def __init__(self) -> None:
        self._script = iter(script())
        super().__init__(iter(lambda: self._answer, None), context_tokens=10**6)

    def _answer(self, request: ModelRequest) -> Any:
        return "Worked." if getattr(request.messages[0], "text", "").startswith("work") else next(self._script)


def options() -> dict[str, Any]:
    """What such a session needs of its program."""
    return {
        "ask": lambda request: ["a"],
        "review": lambda request: True,
        "approve": lambda request: Approval(True, "", always=False),
        "memory": Notes(),
        "hooks": {"stop": lambda request: None, "user_message": lambda request: None},
        "clock": fakes.FakeClock(1_790_000_000.0),
        "worker_patience": None,
        "fsync": "never",
    }


def record(path: Path) -> Path:
    """A recording of a turn with everything in it, of a reset, and of a turn that a crash left open."""
    with Agent(
        Actor(),
        TOOLS,
        f"Be brief. {KEY}",
        features=["questions", "tasks", "plan", "memory", "workers"],
        journal=path,
        session="evil",
        **options(),
    ) as agent:
        agent.run(f"Go with {KEY}!")
        agent.set_mode("careful")
        agent.reset()
        agent.run("Hi!")
        agent.run("Pay!")
    lines = path.read_bytes().splitlines(keepends=True)
    asked = next(n for n, line in reversed(list(enumerate(lines))) if b'"approval_given"' in line)
    path.write_bytes(b"".join(lines[: asked + 1]))
    return path


def forked(path: Path, to: Path) -> Path:
    """A fork of such a recording, whose header holds what it began with."""
    with Agent.fork(
        path, ScriptedModel(["Forked."], context_tokens=10**6), TOOLS, turn=1, journal=to, **options()
    ) as a:
        a.run("And now?")
    return to


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within some data, outermost first."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(data[key], (*path, key))


def put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of some data with another value at this place."""
    data = deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


def seal_texts(lines: list[str]) -> bytes:
    """Lines of JSON as text, each up to its last bracket, with seals and sums that fit: so that all readers read on."""
    content, total, seal = [], 0, start_hash(key_for_writing())
    for line in lines:
        body = line.encode("utf-8", "surrogatepass") + BEFORE
        seal.update(body)
        body += (digits := seal.hexdigest().encode()) + BEHIND
        total = zlib.crc32(body, total)
        content.append(b'%b,"sum":"%08x"}\n' % (body, total))
        seal.update(content[-1][-DIGITS_FROM:])
        assert content[-1][-DIGITS_FROM:].startswith(digits)
    return b"".join(content)


def bodies(path: Path) -> list[str]:
    """The lines of a recording without their seals, their sums and their last brackets."""
    return [
        line[: -DIGITS_FROM - len(BEFORE)].decode("utf-8", "surrogatepass")
        for line in path.read_bytes().splitlines(keepends=True)
    ]


def body(data: Any) -> str:
    """Some data as such a line; also what JSON has no form for."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"))[:-1]
