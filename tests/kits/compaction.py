"""``compaction-conformance-kit``: which planted texts an agent still sees after its conversation was compacted.

The kit's turns become a session, whose assistant's texts are the model's replies. What the agent sees is its next
request: the system prompt and each message. A later round continues the same session, as repeated compaction does.

- ``OnDemand``: ``Agent.compact()``, at 32,768 tokens of context.
- ``Automatic``: the default ``compact_at``, at 4,096 tokens. The session continues until it was compacted again.

Who summarises is a model, whose own losses are not the library's. Two stand-ins, which know nothing of the kit's texts:

- ``repeat``: repeats each line of the user's once, and drops the assistant's.
- ``gist``: keeps 90 characters of each message, as the kit's own stand-in for a model does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from compaction_kit.adapters import _gist
from compaction_kit.compacted import CompactedContext
from compaction_kit.session import Turn

from cognition import AssistantMessage, Compacted, ModelRequest, UserMessage
from cognition.context.summaries import REQUEST_ID
from interpreters import Agent, events, fakes

Summarise = Callable[[Sequence[str], Sequence[str]], str]
"""Returns a summary of the user's messages (the earlier summary first, if there is one) and of all messages."""

QUESTION = "What do you still know of our session?"
GO_ON = "Let's go on with the next module, which is much like the last one. " * 5


def repeat(user: Sequence[str], every: Sequence[str]) -> str:
    """Return the user's messages, each once."""
    return "\n".join(dict.fromkeys(line for text in user for line in text.splitlines()))


def gist(user: Sequence[str], every: Sequence[str]) -> str:
    """Return the beginning of each message."""
    return str(_gist(list(every)))


class _Compacting:
    """An agent that a kit's session was played to."""

    context: int

    def __init__(self, summarise: Summarise) -> None:
        self.name = f"cogstep {type(self).__name__} {summarise.__name__}"
        self._summarise = summarise
        self._replies: Iterator[str] = iter(())
        self._agent: Agent | None = None
        self.compactions = 0

    def compact(self, turns: list[Turn], round_num: int = 1) -> CompactedContext:
        """Compact the session, and return what the agent sees then. The first round plays the kit's turns."""
        if round_num == 1 or self._agent is None:
            self._agent = self._play(turns)
        self._compact(self._agent)
        self._agent.run(QUESTION)
        request = self._agent.model.requests[-1]
        text = "\n".join([request.system, *(message.text for message in request.messages)])
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def _compact(self, agent: Agent) -> None:
        raise NotImplementedError

    def _play(self, turns: list[Turn]) -> Agent:
        system = [turn.text for turn in turns if turn.role == "system"]
        model = fakes.FunctionModel(self._reply, context_tokens=self.context)
        agent = Agent(model, system="\n".join(system), observers=[events.Inline(self._note)])
        spoken = [turn for turn in turns if turn.role != "system"]
        for turn, answer in zip(spoken[::2], spoken[1::2], strict=True):
            self._replies = iter([answer.text])
            agent.run(turn.text)
        return agent

    def _note(self, event: events.Event) -> None:
        self.compactions += isinstance(event.value, Compacted)

    def _reply(self, request: ModelRequest) -> str:
        if request.messages[-1].id != REQUEST_ID:
            return next(self._replies, "Acknowledged.")
        user = [one.text for one in request.messages[:-1] if isinstance(one, UserMessage)]
        every = [one.text for one in request.messages[:-1] if isinstance(one, UserMessage | AssistantMessage)]
        return self._summarise(user, every)


class OnDemand(_Compacting):
    context = 32_768

    def _compact(self, agent: Agent) -> None:
        agent.run(GO_ON)
        agent.run(GO_ON)
        agent.compact()


class Automatic(_Compacting):
    context = 4096

    def _compact(self, agent: Agent) -> None:
        before = self.compactions
        while self.compactions == before:
            agent.run(GO_ON)
