"""A message to a handle whose turn waits for answers is refused at the call; one that was taken is worked on once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from cognition import UserMessage
from interpreters import LATER, AgentHost, PendingError, replay, tool
from interpreters.testing.fakes import FunctionModel, call


@tool(approval=True)
def pay(text: str) -> str:
    """Pay."""
    return f"paid {text}"


def answer(request: Any) -> Any:
    newest = request.messages[-1]
    is_payment = isinstance(newest, UserMessage) and newest.text.startswith("pay")
    return call("pay", text=newest.text) if is_payment else "Done."


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(["send", "pay", "answer", "cancel"]), max_size=8))
def test_a_message_is_refused_at_the_call_or_worked_on_once_and_in_order(
    tmp_path_factory: Any, moves: list[str]
) -> None:
    path = tmp_path_factory.mktemp("handles") / "s.jsonl"
    taken: list[str] = []
    with AgentHost.in_thread(FunctionModel(answer)) as host:
        handle = host.open("ada", [pay], journal=path, approve=lambda _: LATER)
        for number, move in enumerate(moves):
            waits, text = bool(handle.pending), f"{move} {number}"
            if move == "answer" and waits:
                assert handle.answer(str(handle.pending[0].effect_id), True).text == "Done."
            elif move == "cancel":
                assert handle.cancel() == waits
            elif move in ("send", "pay"):
                try:
                    handle.run(text)
                    taken.append(text)
                except PendingError:
                    assert waits

    history = replay(path).raise_for_divergence().state.history
    assert [one.text for one in history if isinstance(one, UserMessage)] == taken
