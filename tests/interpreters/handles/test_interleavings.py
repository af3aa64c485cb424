"""Any messages in any order: nothing hangs, each turn ends once, and nothing of a turn comes after its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cognition import ToolSpec
from interpreters import fakes
from interpreters.fakes import GeneratedModel, Reply, call
from interpreters.handles import messages as say
from interpreters.handles.messages import line_of
from tests.interpreters.handles.common import talk

SESSIONS = ("a", "b")

TOOLS = (say.ToolOffer(ToolSpec("look", read_only=True)), say.ToolOffer(ToolSpec("pay", approval=True)))
SETTINGS = [
    say.Settings(features=("questions",), hooks=("stop",), approvals=True, window=window) for window in (None, 1, 3, 20)
]

replies = st.sampled_from(
    [
        Reply("Done."),
        Reply(calls=call("look")),
        Reply(calls=(call("look"), call("look"), call("pay"))),
        Reply(calls=call("pay")),
        Reply(calls=call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])),
        Reply("Once upon a time", chunk=3),
        Reply(crash=OSError("gone")),
    ]
)
"""Turns that end by themselves, and turns that wait for the other side."""

sessions = st.sampled_from((*SESSIONS, "nobody"))
few = st.integers(1, 6)


class Messages:
    """Draws messages and writes down what has to be answered."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.identities: list[str] = []
        self.fresh: list[tuple[str, int]] = []
        """Turns whose number is new to their session."""
        self._turns: Counter[str] = Counter()

    def identity(self) -> str:
        self.identities.append(f"r{len(self.identities)}")
        return self.identities[-1]

    def turn(self, session: str) -> int:
        self._turns[session] += 1
        self.fresh.append((session, self._turns[session]))
        return self._turns[session]

    def add(self, message: say.Request) -> None:
        self.lines.append(line_of(message))

    def draw(self, data: st.DataObject) -> None:
        """One message: well placed, late, malformed, or for nobody."""
        session = data.draw(sessions)
        number, turn = data.draw(few), data.draw(few)
        match data.draw(st.sampled_from(KINDS)):
            case "turn":
                self.add(say.RunTurn(session, self.turn(session), "Go!"))
            case "stale":
                self.add(say.RunTurn(session, 0, "Go!"))
            case "malformed turn":
                self.lines.append(json.dumps({"type": "run_turn", "session": session, "turn": self.turn(session)}))
            case "malformed":
                self.lines.append(data.draw(st.sampled_from(MALFORMED)))
            case "result":
                self.add(say.ToolResult(session, turn, number, "ok", data.draw(st.booleans())))
            case "progress":
                self.add(say.ToolProgress(session, turn, number, "on it"))
            case "read":
                self.add(say.Read(session, turn, number))
            case "approval":
                self.add(say.ApprovalAnswer(session, turn, number, data.draw(st.booleans())))
            case "choice":
                self.add(say.Choice(session, turn, number, (("a",),), data.draw(st.booleans())))
            case "hook":
                self.add(say.HookVerdict(session, turn, number))
            case "no answer":
                self.add(say.NoAnswer(session, turn, number, "nobody"))
            case "cancel":
                self.add(say.Cancel(session, turn, "enough"))
            case "mode":
                self.add(
                    say.SetMode(self.identity(), session, data.draw(st.sampled_from(("default", "careful", "auto"))))
                )
            case "reset":
                self.add(say.Reset(self.identity(), session))
            case "go on":
                self.add(say.GoOn(session, self.turn(session)))
            case "fork":
                self.add(say.Fork(self.identity(), session, data.draw(sessions)))
            case "init":
                self.add(say.Init(self.identity(), session, data.draw(st.sampled_from(SETTINGS)), TOOLS))
            case "dispose":
                self.add(say.Dispose(self.identity(), session))


KINDS = (
    *("turn", "turn", "turn", "read", "read", "result", "result", "approval", "approval", "cancel", "cancel"),
    *("stale", "malformed turn", "malformed", "progress", "choice", "hook", "no answer", "mode", "reset", "go on"),
    *("fork", "init", "dispose"),
)
MALFORMED = ("", "{", "[]", '{"type": "nothing"}', '{"type": "cancel"}', '{"type": "tool_result", "session": "a"}')


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(replies, max_size=8), replies, st.data())
def test_any_interleaving_of_messages_ends_every_turn_once(
    script: list[Reply], then: Reply, data: st.DataObject
) -> None:
    """Malformed, late, doubled and misaddressed ones too; with a model that calls tools, asks, answers and crashes."""
    messages = Messages()
    for session in SESSIONS:
        messages.add(say.Init(messages.identity(), session, data.draw(st.sampled_from(SETTINGS)), TOOLS))
    for _ in range(data.draw(st.integers(0, 25))):
        messages.draw(data)

    check(messages, talk(messages.lines, GeneratedModel(script, then), fakes.FakeClock()))


def check(messages: Messages, said: Sequence[Any]) -> None:
    ended: Counter[tuple[str, int]] = Counter()
    for notice in said:
        if not hasattr(notice, "turn"):
            continue
        place = (notice.session, notice.turn)
        if isinstance(notice, say.TurnEnded | say.TurnBroken):
            ended[place] += 1
        else:
            assert not ended[place], f"{notice} came after the end of its turn"
    assert dict.fromkeys(messages.fresh, 1) == {place: n for place, n in ended.items() if place[1] > 0}
    answered = [notice.id for notice in said if hasattr(notice, "id")]
    assert sorted(messages.identities) == sorted(answered)
