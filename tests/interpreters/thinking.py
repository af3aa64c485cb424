"""A model that looks at the conversation, so that it goes on in whatever process it is asked."""

from __future__ import annotations

import itertools

from cognition import AssistantMessage, ModelRequest, UserMessage
from cognition.values.features import Feature
from interpreters.testing.fakes import Reply, Scripted, call

FEATURES: tuple[Feature, ...] = ("questions", "memory", "workers")


def reply_to(request: ModelRequest) -> Scripted:
    """One thing after another: calls, a note, a payment, a question, a worker, the answer."""
    newest = max(i for i, m in enumerate(request.messages) if isinstance(m, UserMessage) and m.origin == "user")
    done = sum(isinstance(m, AssistantMessage) for m in itertools.islice(request.messages, newest, None))
    steps: list[Scripted] = [
        Reply("I look.", [call("look", n=1), call("look", n=2)], chunk=3),
        call("remember", text="The user is in a hurry."),
        [call("pay", amount=5), call("mark", n=7)],
        call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]),
        call("spawn_worker", name="ann", objective="work"),
    ]
    first = request.messages[0]
    if isinstance(first, UserMessage) and first.text.startswith("work"):
        return "Worked."
    return steps[done] if done < len(steps) else "All is done."
