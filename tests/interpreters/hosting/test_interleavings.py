"""Any messages in any order: nothing hangs, each turn ends once, and nothing of a turn comes after its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    ApprovalGiven,
    ApprovalRefused,
    CancelAsked,
    EffectId,
    HookReturned,
    QuestionAnswered,
    ToolFailed,
    ToolReturned,
    ToolSpec,
)
from interpreters import fakes
from interpreters.hosting import _protocol as say
from interpreters.hosting._protocol import line_of
from interpreters.testing.fakes import GeneratedModel, Reply, call
from tests.interpreters.hosting.common import talk

SESSIONS = ("a", "b")

CONFIG = AgentConfig(
    tools=(ToolSpec("look", read_only=True), ToolSpec("pay", approval=True)), features=("questions",), hooks=("stop",)
)
SETTINGS = [say.Settings(approvals=True, window=window, external=("look",)) for window in (None, 1, 3, 20)]

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
few = st.integers(1, 4)
answers = st.sampled_from(
    [
        lambda effect_id: ToolReturned(effect_id, "ok"),
        lambda effect_id: ToolFailed(effect_id, "no"),
        lambda effect_id: ApprovalGiven(effect_id),
        lambda effect_id: ApprovalRefused(effect_id, "no"),
        lambda effect_id: QuestionAnswered(effect_id, (("a",),)),
        lambda effect_id: HookReturned(effect_id),
        lambda effect_id: CancelAsked("declined"),
    ]
)
"""That fit their effect, or do not."""


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
            case "performed":
                effect_id = EffectId(f"{turn}.{data.draw(few)}.{number}")
                answer = data.draw(answers)(effect_id)
                self.add(say.Performed(session, turn, data.draw(sessions), effect_id, answer))
            case "postponed":
                effect_id = EffectId(f"{turn}.{data.draw(few)}.{number}")
                self.add(say.EffectPostponed(session, turn, data.draw(sessions), effect_id))
            case "answer":
                effect_id = EffectId(f"{turn}.{data.draw(few)}.{number}")
                answer = data.draw(answers)(effect_id)
                self.add(say.GiveAnswer(session, self.turn(session), effect_id, answer))
            case "progress":
                effect_id = EffectId(f"{turn}.{data.draw(few)}.{number}")
                self.add(say.ProgressReport(session, turn, session, effect_id, "on it"))
            case "read":
                self.add(say.Read(session, turn, number))
            case "cancel":
                self.add(say.Cancel(session, turn, "enough", data.draw(st.booleans())))
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
                self.add(say.Init(self.identity(), session, CONFIG, data.draw(st.sampled_from(SETTINGS))))
            case "dispose":
                self.add(say.Dispose(self.identity(), session))


KINDS = (
    *("turn", "turn", "turn", "read", "read", "performed", "performed", "performed", "performed", "cancel", "cancel"),
    *("postponed", "postponed", "postponed", "answer", "answer", "answer"),
    *("stale", "malformed turn", "malformed", "progress", "performed", "mode", "reset", "go on"),
    *("fork", "init", "dispose"),
)
MALFORMED = ("", "{", "[]", '{"type": "nothing"}', '{"type": "cancel"}', '{"type": "performed", "session": "a"}')


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(replies, max_size=8), replies, st.data())
def test_any_interleaving_of_messages_ends_every_turn_once(
    script: list[Reply], then: Reply, data: st.DataObject
) -> None:
    """Malformed, late, doubled and misaddressed ones too; with a model that calls tools, asks, answers and crashes."""
    messages = Messages()
    for session in SESSIONS:
        messages.add(say.Init(messages.identity(), session, CONFIG, data.draw(st.sampled_from(SETTINGS))))
    for _ in range(data.draw(st.integers(0, 25))):
        messages.draw(data)

    check(messages, talk(messages.lines, GeneratedModel(script, then), clock=fakes.FakeClock()))


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
