"""Whatever a model's process says, the caller gets an error in bounded time and memory, and the process is ended.

The children are real processes (``evil.py``). A line of the tables is a case.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cognition import CogstepError, GenerationOptions, History, ModelRequest, UserMessage
from runtime import Done
from runtime.isolated import wire
from runtime.isolated.handles import IsolatedRuntime
from runtime.isolated.settings import Isolation
from runtime.isolated.supervisor import Supervisor

ONCE = Isolation(silence=1.0, deadline=1.0, backoff=0.0, restarts=0)
"""The first end is the last one, so that every question has its answer."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for a minute's worth of steps is waited for one."""
    monkeypatch.setattr("runtime.isolated.supervisor.MOST_STEPS", 1)


REQUEST = ModelRequest("", History((UserMessage("m1", "Hi"),)), (), GenerationOptions())


def supervise(**orders: Any) -> Supervisor:
    return Supervisor(
        lambda: wire.Load("llama", json.dumps(orders), ONCE.silence / 4),
        ONCE,
        name="evil",
        on_progress=lambda _fraction: True,
        module="tests.runtime.isolated.evil",
    )


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def started() -> Iterator[list[IsolatedRuntime]]:
    made: list[IsolatedRuntime] = []
    yield made
    for runtime in made:
        runtime.close()


def ends(started: list[IsolatedRuntime], *, ended: bool = True, **orders: Any) -> Done:
    """How a reply ends, and a count: with one error each, or as it should.

    ``ended``: by an error the process is over. Not so where what it says may be a refusal as a good one says it.
    """
    runtime = IsolatedRuntime(supervise(**orders))
    started.append(runtime)
    pid = runtime.pid
    assert pid is not None
    generation = runtime.submit(REQUEST)
    try:
        count: int | str = runtime.count_tokens(REQUEST)
    except CogstepError as error:
        count = str(error)
    *_, done = generation
    assert isinstance(done, Done)
    assert isinstance(count, int) or count
    if ended and (done.finish_reason == "error" or isinstance(count, str)):
        assert is_gone(pid)
    return done


def cases(table: dict[str, Any], *quick: str) -> Any:
    """All rows of a table; a process for each takes its time, so that only a few belong to the fast tests."""
    assert set(quick) <= set(table)
    return pytest.mark.parametrize(
        "what", [pytest.param(name, marks=[] if name in quick else [pytest.mark.slow]) for name in table]
    )


def say(**message: Any) -> str:
    return json.dumps(message).replace('"ID"', "ID") + "\n"


def produced(piece: Any, number: Any = "ID") -> str:
    return say(type="produced", items=[[number, piece]])


READY = wire.encode(wire.Ready(wire.ModelInfo("e", "t", "", 5, wire.FormatSpec("plain")))).decode()
TEXT = {"type": "text_delta", "text": "x"}
DONE = {
    "type": "done", "text": "", "reasoning": "", "calls": [], "malformed": [], "finish_reason": "stop", "usage": {},
    "timings": {},
}  # fmt: skip
MESSAGES: dict[str, Any] = {
    "a count with a reply's number": say(type="counted", id="ID", tokens=5),
    "no count with a reply's number": say(type="not_counted", id="ID", refusal={"error": "E", "message": "m"}),
    "a count that nobody asked for": say(type="counted", id=99, tokens=5),
    "a reply that nobody asked for": produced(TEXT, 99),
    "a number below zero": produced(TEXT, -1),
    "a number that is a text": produced(TEXT, "1"),
    "a number that is a truth value": produced(TEXT, True),
    "a number with a fraction": produced(TEXT, 1.0),
    "a number of 400 digits": produced(TEXT, 10**400),
    "the end twice": produced(DONE) * 2,
    "a piece behind the end": produced(DONE) + produced(TEXT),
    "ready again": READY,
    "loading again": say(type="loading", fraction=0.5),
    "a load that fails too late": say(type="load_failed", refusal={"error": "E", "message": "m"}),
    "what a parent says": say(type="cancel", id="ID"),
    "what nobody says": say(type="exec", code="boom"),
    "no type": say(id="ID"),
    "a type that is none": say(type={"a": 1}),
    "a field too many": say(type="pulse", steps=1, more=1),
    "a field too few": say(type="counted", id="ID"),
    "no object": "[1]\n",
    "a bare number": "1\n",
    "an empty line": "\n",
    "no JSON": "rubbish\n",
    "NaN": '{"type":"pulse","steps":NaN}\n',
    "infinity": '{"type":"pulse","steps":Infinity}\n',
    "too large a float": '{"type":"pulse","steps":1e999}\n',
    "a key twice": '{"type":"pulse","steps":1,"steps":2}\n',
    "steps of 5,000 digits": '{"type":"pulse","steps":' + "9" * 5_000 + "}\n",
    "steps of a million digits": '{"type":"pulse","steps":' + "9" * 1_000_000 + "}\n",
    "deep nesting": "[" * 400_000 + "\n",
    "deep nesting that is closed": '{"type":"pulse","steps":' + "[" * 100_000 + "]" * 100_000 + "}\n",
    "objects without end": ('{"type":"produced","items":[', "{},", 1_000_000, "{}]}\n"),
    "no UTF-8": '{"type":"pulse","steps":1,"\xff":1}\n',
    "UTF-8 that is cut": '{"type":"pulse\xe2\x82","steps":1}\n',
    "a surrogate in UTF-8": '{"type":"\xed\xa0\x80","steps":1}\n',
    "zeros": "\0" * 100 + "\n",
    "old frames": "\0\0\0\x02{}",
    "a byte order mark": "\xef\xbb\xbf" + say(type="pulse", steps=1),
    "usage of 400 digits": produced(DONE | {"usage": {"input_tokens": 10**400}}),
    "usage below zero": produced(DONE | {"usage": {"output_tokens": -5}}),
    "usage that is true": produced(DONE | {"usage": {"output_tokens": True}}),
    "a cost beyond all measure": produced(DONE | {"usage": {"cost": 1e308}}),
    "times below zero": produced(DONE | {"timings": {"decode_seconds": -1}}),
    "an error without a failure": produced(DONE | {"finish_reason": "error"}),
    "an end for no reason that there is": produced(DONE | {"finish_reason": "bored"}),
    "a wait beyond all measure": produced(
        DONE | {"finish_reason": "error", "failure": {"message": "", "retry_after": 1e300}}
    ),
    "a text that is a number": produced({"type": "text_delta", "text": 5}),
    "a piece of no kind": produced({"type": "picture"}),
    "a piece that is null": produced(None),
    "no list of pieces": say(type="produced", items="abc"),
}


@cases(MESSAGES, "a count with a reply's number", "usage of 400 digits", "no UTF-8", "deep nesting")
def test_a_message_that_can_not_be_right_ends_the_child_and_the_reply(
    what: str, started: list[IsolatedRuntime]
) -> None:
    said = MESSAGES[what]
    if isinstance(said, tuple):  # what is too large to be told to the child in one line
        begin, again, times, end = said
        done = ends(started, at="submit", begin=begin, say=again, times=times, end=end)
    else:
        done = ends(started, at="submit", say=said)

    if what in ("the end twice", "a piece behind the end"):  # the reply had its end by then
        assert done.finish_reason == "stop"
    else:
        assert done.failure is not None
        assert done.finish_reason == "error"


NOTHING: dict[str, dict[str, Any]] = {
    "silence": {"then": "mute"},
    "a closed connection": {"then": "close"},
    "its end": {"then": "exit"},
    "a line that is cut": {"say": '{"type":"produced","items":[[ID,', "then": "exit"},
    "a line that never ends": {"say": "x" * 65_536, "times": 0},
    "a line of zeros that never ends": {"say": "\0" * 65_536, "times": 0},
    "empty lines without end": {"say": "\n" * 1000, "times": 0},
    "signs of life without end": {"say": say(type="pulse", steps=1) * 100, "times": 0},
    "text without end": {"say": produced(TEXT) * 100, "times": 0},
    "long text without end": {"say": produced(TEXT | {"text": "x" * 1_000_000}), "times": 0},
    "calls without end": {"say": produced({"type": "call_started", "index": 1, "name": "a"}) * 100, "times": 0},
    "lists without end": {"say": say(type="produced", items=[["ID", TEXT]] * 1000), "times": 0},
    "signs of life that tell of steps": {},
    "no pieces without end": {"say": say(type="produced", items=[]) * 1000, "times": 0},
}

MEGABYTES = 300
"""Of memory that a parent may take more while a child floods it."""


def peak() -> float:
    """The most memory that this process has taken so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


@cases(NOTHING, "silence", "a line that never ends", "text without end")
def test_a_child_that_says_nothing_or_no_end_of_it_is_ended(what: str, started: list[IsolatedRuntime]) -> None:
    """And what it floods its parent with has room."""
    before = peak()
    done = ends(started, at="submit", **NOTHING[what])

    assert done.finish_reason == "error"
    assert peak() - before < MEGABYTES


LOADS: dict[str, dict[str, Any]] = {
    "nothing": {"then": "mute"},
    "its end": {"then": "exit"},
    "rubbish": {"say": "rubbish\n"},
    "a reply": {"say": produced(TEXT, 1)},
    "a count": {"say": say(type="counted", id=1, tokens=1)},
    "how far it is, without end": {"say": say(type="loading", fraction=0.5) * 1000, "times": 0},
    "a fraction that is none": {"say": '{"type":"loading","fraction":NaN}\n'},
    "a fraction beyond one": {"say": say(type="loading", fraction=2)},
    "an error with a long text": {"say": say(type="load_failed", refusal={"error": "E", "message": "x" * 1_000_000})},
    "an error of no name": {"say": say(type="load_failed", refusal={"error": "", "message": ""})},
    "an error that ends programs": {"say": say(type="load_failed", refusal={"error": "SystemExit", "message": "0"})},
    "a model without a context": {
        "say": wire.encode(wire.Ready(wire.ModelInfo("e", "t", "", 5, wire.FormatSpec("plain"))))
        .decode()
        .replace("5", "0")
    },
    "a model of no format": {
        "say": say(type="ready", info={"name": "a", "backend": "b", "path": "", "context_tokens": 5})
    },
}


@cases(LOADS, "rubbish", "how far it is, without end")
def test_a_child_that_loads_no_model_is_an_error_of_loading(what: str) -> None:
    supervisor = supervise(at="load", **LOADS[what])
    with pytest.raises(CogstepError) as caught:
        supervisor.ready.result(60)
    supervisor.close()

    assert len(str(caught.value)) < 5000


def test_a_reply_that_is_cancelled_and_never_ends_is_ended(started: list[IsolatedRuntime]) -> None:
    """The child lives, says that it gets on, and does not end what nobody wants any more."""
    runtime = IsolatedRuntime(supervise(at="submit"))
    started.append(runtime)
    generation = runtime.submit(REQUEST)
    generation.cancel()
    *_, done = generation

    assert done.finish_reason == "cancelled"


def test_a_child_that_does_not_want_to_end_is_ended() -> None:
    runtime = IsolatedRuntime(supervise(at="close"))
    pid = runtime.pid
    runtime.close()

    assert pid is not None
    assert is_gone(pid)


def mutated(chance: random.Random) -> str:
    """One to five lines, of which something was changed, taken out, doubled or put elsewhere."""
    lines = [chance.choice(HONEST) for _ in range(chance.randint(1, 5))]
    text = bytearray("".join(lines), "latin-1")
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(text))
        match chance.randrange(5):
            case 0:
                text[at] = chance.randrange(256)
            case 1:
                del text[at : at + chance.randint(1, 20)]
            case 2:
                text[at:at] = text[chance.randrange(len(text)) :][: chance.randint(1, 40)]
            case 3:
                text[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
            case 4:
                text[at:at] = chance.choice(ODD)
        text = text or bytearray(b"\n")
    return text.decode("latin-1")


HONEST = [
    produced(TEXT),
    produced(DONE),
    say(type="produced", items=[["ID", TEXT], ["ID", DONE]]),
    say(type="counted", id="ID", tokens=5),
    say(type="counted", id=2, tokens=5),
    say(type="pulse", steps=3),
    say(type="not_counted", id=2, refusal={"error": "TemplateError", "message": "no"}),
]
ODD = [b"NaN", b"-", b"9" * 400, b"[" * 200, b'"', b"\\ud800", b"null", b"true", b"\n", b"{}", b"1e400", b'"ID":ID,']


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_whatever_a_child_says_everything_that_was_asked_has_an_end(seed: int, started: list[IsolatedRuntime]) -> None:
    """Lines that were changed by chance. The child stays alive and says nothing more, so that only deadlines end it."""
    chance = random.Random(seed)
    at, say = chance.choice(["submit", "count"]), mutated(chance)
    ends(started, ended=False, at=at, say=say, then=chance.choice(["mute", "exit", ""]))


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (say(type="counted", id="ID", tokens=0, each=[1, 2]), (1, 2)),
        (say(type="counted", id="ID", tokens=0, each=[1]), ()),
        (say(type="counted", id="ID", tokens=7), ()),
        (say(type="counted", id="ID", tokens=0, each=[1, -2]), None),
        (say(type="counted", id="ID", tokens=0, each=[1, 2.5]), None),
        (say(type="counted", id="ID", tokens=0, each="12"), None),
    ],
)
def test_counts_of_texts_are_as_many_as_texts_or_none(
    started: list[IsolatedRuntime], said: str, counts: tuple[int, ...] | None
) -> None:
    """Fewer than were asked for are none; what can't be a count ends the process."""
    runtime = IsolatedRuntime(supervise(at="count_texts", say=said))
    started.append(runtime)
    if counts is not None:
        assert runtime.count_texts(["a", "b"]) == counts
        return
    with pytest.raises(CogstepError):
        runtime.count_texts(["a", "b"])
    assert runtime.pid is None or is_gone(runtime.pid)
