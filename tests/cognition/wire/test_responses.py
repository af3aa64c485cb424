"""OpenAI's Responses: the phases of messages, which the server wants back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cognition import AssistantMessage, UserMessage
from cognition.wire import WireReply, encode
from tests.cognition.wire.sent import asked, read

COMMENTARY, FINAL = ("commentary", "Let me look. "), ("final_answer", "It is 3. 🤔")


def stream(*messages: tuple[str, str], streamed: bool = True) -> bytes:
    """Messages with their phases, streamed or only as a whole at the end."""
    output = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        | ({"phase": phase} if phase else {})
        for phase, text in messages
    ]
    events: list[dict[str, Any]] = []
    for place, item in enumerate(output) if streamed else ():
        events.append({"type": "response.output_item.added", "output_index": place, "item": {**item, "content": []}})
        for letter in item["content"][0]["text"]:
            events.append({"type": "response.output_text.delta", "output_index": place, "delta": letter})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    response = {"id": "r1", "model": "gpt", "status": "completed", "output": output}
    events.append({"type": "response.completed", "response": response})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def sent_back(reply: WireReply, text: str | None = None) -> list[dict[str, Any]]:
    """The assistant's messages of the next request, for the same model."""
    message = AssistantMessage(
        "m2", reply.text if text is None else text, reply.reasoning, continuation=reply.continuation
    )
    request = asked(UserMessage("m1", "Hi"), message, UserMessage("m3", "And?"))
    body = json.loads(encode("responses", request, model="gpt").body)
    return [item for item in body["input"] if item.get("role") == "assistant"]


def message(text: str, phase: str = "") -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text} | ({"phase": phase} if phase else {})


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("messages", [(FINAL,), (COMMENTARY, FINAL), (COMMENTARY, FINAL, COMMENTARY)])
def test_each_message_goes_back_with_its_phase(messages: tuple[tuple[str, str], ...], streamed: bool) -> None:
    """Without it a model takes its commentary for an answer, and stops early."""
    _, reply = read("responses", [stream(*messages, streamed=streamed)])

    assert reply.text == "".join(text for _, text in messages)
    assert sent_back(reply) == [message(text, phase) for phase, text in messages]


def test_a_text_that_has_changed_goes_back_as_one_with_the_last_phase() -> None:
    _, reply = read("responses", [stream(COMMENTARY, FINAL)])

    assert sent_back(reply, "Shorter.") == [message("Shorter.", "final_answer")]
    assert sent_back(reply, "") == []


def test_messages_without_a_phase_go_back_without_one() -> None:
    _, reply = read("responses", [stream(("", "Hello."))])

    assert reply.continuation == ""
    assert sent_back(reply) == [message("Hello.")]
