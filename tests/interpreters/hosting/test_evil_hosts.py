"""Whatever a host's process says, the program gets an error in bounded time and memory, and the process is ended.

The hosts are real processes (``evil.py``). A line of the tables is a case.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError
from interpreters.hosting import AgentHost
from tests.interpreters.hosting.common import look


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that does not end is ended soon."""
    monkeypatch.setattr("interpreters.hosting._agent_host.CLOSE_SECONDS", 1.0)


EVIL = Path(__file__).with_name("evil.py")
WAIT = 2.0
"""Seconds that a host may take for an answer."""


def in_process(**orders: Any) -> AgentHost:
    command = (sys.executable, str(EVIL), json.dumps(orders))
    return AgentHost.in_process(command=command, start_wait=WAIT, answer_wait=WAIT)


def ends(**orders: Any) -> str:
    """What the program is told of a turn: its text, or the error."""
    host: AgentHost | None = None
    try:
        host = in_process(**orders)
        result = host.open("a", [look]).run("Hi!")
        return result.text or str(result.outcome)
    except CogstepError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if host is not None:
            host.close()
            assert host.process is not None
            assert host.process.returncode is not None


def say(**message: Any) -> str:
    return json.dumps(message) + "\n"


def event(value: Any, turn: Any = 1, session: str = "a") -> str:
    inside = {"session": "a", "turn": 1, "step": 1, "attempt": 1, "sequence": 1, "value": value}
    return say(type="event", session=session, turn=turn, event=inside)


def ended(**change: Any) -> str:
    end = {"outcome": {"type": "completed", "text": "x"}, "usage": {}, "messages": [], "number": 1}
    return say(type="turn_ended", session="a", turn=1, **{**end, **change})


APPROVAL = {"type": "ask_approval", "effect_id": "1.1.1", "call": {"id": "c", "name": "look"}, "reason": ""}


def suspended(*pending: Any) -> str:
    return ended(outcome={"type": "suspended", "pending": pending})


def called(name: str) -> dict[str, Any]:
    return {"type": "call_tool", "effect_id": "1.1.2", "call": {"id": "c", "name": name}}


def perform(name: str = "look", effect_id: str = "1.1.1") -> str:
    call = {"id": "c", "name": name, "arguments_json": "{}"}
    return say(
        type="perform",
        session="a",
        turn=1,
        owner="a",
        effect={"type": "call_tool", "effect_id": effect_id, "call": call},
    )


TEXT = {"type": "text_delta", "text": "x"}
MESSAGES = {
    "an answer to nothing": say(type="done", id="r99"),
    "an answer to what was answered": say(type="ready", id="r2", session="a"),
    "the model again": say(type="started", id="r1", model="m", backend="b", context_tokens=5),
    "an event of a turn to come": event(TEXT, turn=2),
    "an event of a turn before all": event(TEXT, turn=0),
    "an event of another session": event(TEXT, session="b"),
    "an event that is none": event({"type": "text_delta"}),
    "an event of the wrong type": event({"type": "text_delta", "text": 5}),
    "a turn of 400 digits": event(TEXT, turn=10**400),
    "a turn that is a text": event(TEXT, turn="1"),
    "usage of 400 digits": ended(usage={"input_tokens": 10**400}),
    "usage below zero": ended(usage={"output_tokens": -5}),
    "a cost beyond all measure": ended(usage={"cost": 1e308}),
    "an outcome that there is not": ended(outcome={"type": "won"}),
    "messages that are none": ended(messages=[1]),
    "a turn's number below zero": ended(number=-1),
    "a call of a tool that there is not": perform("rm"),
    "a turn that waits for nothing": suspended(),
    "a turn that waits for a model": suspended({"type": "call_model", "effect_id": "1.1.1", "request": {}}),
    "a turn that waits for a hook": suspended({"type": "run_hook", "effect_id": "1.1.1", "point": "stop"}),
    "a turn that waits for a tool that there is not": suspended(called("rm")),
    "a turn that waits for one effect twice": suspended(APPROVAL, APPROVAL),
    "a turn that waits for too much": suspended(*({**APPROVAL, "effect_id": str(n)} for n in range(1001))),
    "a broken turn that waits for a tool that there is not": say(
        type="turn_broken", session="a", turn=1, error="E", message="m", pending=[called("rm")]
    ),
    "the same call twice": perform() * 2,
    "what a handle says": say(type="run_turn", session="a", turn=1, text=""),
    "what nobody says": say(type="exec", code="boom"),
    "no type": say(session="a"),
    "a field too many": say(type="faulted", message="", more=1),
    "no object": "[1]\n",
    "an empty line": "\n",
    "no JSON": "rubbish\n",
    "NaN": '{"type":"turn_ended","session":"a","turn":NaN}\n',
    "too large a float": '{"type":"turn_ended","session":"a","turn":1e999}\n',
    "a key twice": '{"type":"faulted","message":"","message":""}\n',
    "deep nesting": "[" * 50_000 + "\n",
    "no UTF-8": '{"type":"faulted","message":"\xff"}\n',
    "zeros": "\0" * 100 + "\n",
}
QUICK = (
    "an answer to nothing",
    "usage of 400 digits",
    "a call of a tool that there is not",
    "a turn that waits for a tool that there is not",
)


def cases(table: dict[str, Any], *quick: str) -> Any:
    assert set(quick) <= set(table)
    return pytest.mark.parametrize(
        "what", [pytest.param(name, marks=[] if name in quick else [pytest.mark.slow]) for name in table]
    )


@cases(MESSAGES, *QUICK)
def test_a_message_that_can_not_be_right_ends_the_host(what: str) -> None:
    told = ends(at="run_turn", say=MESSAGES[what])

    assert told.startswith("HostDiedError: the host said what can't be right")


NOTHING: dict[str, dict[str, Any]] = {
    "silence": {"then": "mute"},
    "a closed connection": {"then": "close"},
    "its end": {"then": "exit"},
    "a line that is cut": {"say": '{"type":"turn_ended",', "then": "exit"},
    "a line that is cut, and silence": {"say": '{"type":"turn_ended",', "then": "mute"},
    "a line that never ends": {"say": "x" * 65_536, "times": 0},
    "zeros that never end": {"say": "\0" * 8192, "times": 0},
    "events without end": {"say": event(TEXT) * 100, "times": 0},
    "long events without end": {"say": event({"type": "text_delta", "text": "x" * 100_000}), "times": 0},
    "effects without end": {"say": perform(effect_id="1.1.COUNT"), "times": 0},
}
"""What is said at the beginning of a turn whose stream nobody reads."""

MEGABYTES = 400
"""Of memory that a program may take more while a host floods it."""


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


@cases(NOTHING, "silence", "events without end")
def test_a_host_that_says_nothing_or_no_end_of_it_is_ended(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreters.hosting._turn_stream.MOST_EFFECTS", 2000)
    before = peak()
    host = in_process(at="run_turn", **NOTHING[what])
    stream = host.open("a", [look]).stream("Hi!")
    assert host._gone.wait(60)
    with pytest.raises(CogstepError):
        list(stream)
    host.close()

    assert peak() - before < MEGABYTES


BEGINNINGS: dict[str, dict[str, Any]] = {
    "nothing": {"at": "start", "then": "mute"},
    "its end": {"at": "start", "then": "exit"},
    "rubbish": {"at": "start", "say": "rubbish\n"},
    "the wrong answer": {"at": "start", "say": say(type="done", id="ID")},
    "a session before the model": {"at": "start", "say": say(type="ready", id="ID", session="a")},
    "a context below zero": {
        "at": "start",
        "say": say(type="started", id="ID", model="m", backend="b", context_tokens=-5),
    },
    "a context of 400 digits": {
        "at": "start",
        "say": say(type="started", id="ID", model="m", backend="b", context_tokens=10**400),
    },
    "a refusal of no error": {"at": "start", "say": say(type="refused", id="ID", error="", message="")},
    "a refusal that is long": {"at": "start", "say": say(type="refused", id="ID", error="E", message="x" * 50_000)},
    "a session of another name": {"at": "init", "say": say(type="ready", id="ID", session="b")},
    "the model instead of a session": {
        "at": "init",
        "say": say(type="started", id="ID", model="m", backend="b", context_tokens=5),
    },
    "a session that waits for a tool that there is not": {
        "at": "init",
        "say": say(type="ready", id="ID", session="a", pending=[called("rm")]),
    },
    "a session that waits for a text": {"at": "init", "say": say(type="ready", id="ID", session="a", pending=["x"])},
    "no session": {"at": "init", "then": "mute"},
}


@cases(BEGINNINGS, "nothing", "the wrong answer")
def test_a_host_that_does_not_begin_as_it_should_is_an_error(what: str) -> None:
    told = ends(**BEGINNINGS[what])

    assert "Error: " in told
    assert len(told) < 5000


HONEST = [
    event(TEXT),
    ended(),
    suspended(APPROVAL, called("look")),
    perform(),
    say(type="dropped", session="a", turn=1, owner="a", effect_id="1.1.1"),
    say(type="turn_broken", session="a", turn=1, error="E", message="m"),
    say(type="faulted", message="m"),
]
ODD = [b"NaN", b"-", b"9" * 400, b"[" * 200, b'"', b"\\ud800", b"null", b"true", b"\n", b"{}", b"1e400"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_host_says_a_turn_has_an_end(seed: int) -> None:
    """Lines that were changed by chance, and then silence."""
    chance = random.Random(seed)
    text = bytearray("".join(chance.choice(HONEST) for _ in range(chance.randint(1, 5))), "latin-1")
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(text))
        match chance.randrange(3):
            case 0:
                text[at] = chance.randrange(256)
            case 1:
                del text[at : at + chance.randint(1, 20)]
            case 2:
                text[at:at] = chance.choice(ODD)
        text = text or bytearray(b"\n")
    assert ends(at="run_turn", say=text.decode("latin-1"), then=chance.choice(["mute", "exit"]))
