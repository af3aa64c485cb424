"""Runs on purpose: they lead an engine to the premises of a law that drawn runs did not reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve, frozen

from cognition.policy import Rule
from cognition.steps.decisions import AskApproval, CallModel, CallTool, Effect
from cognition.steps.inputs import ApprovalRefused, Input, ModelReplied, ToolReturned, UserSpoke
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._law import Law
from cognition.testing._moves import FOREIGN
from cognition.testing._permission_laws import check_permitted
from cognition.testing._sample_inputs import ANY
from cognition.testing._situations import default_alphabet, in_text
from cognition.testing._state_laws import answer
from cognition.testing._world import World, readdress
from cognition.values.messages import ProposedCall

MOST_INPUTS = 60
"""Inputs of one run. The default limit of 12 steps is met after 30."""
MESSAGES = 6
"""Messages of a conversation that is too long for its context: each fills a third of it."""
SEVERAL = 4
"""Equal calls, of which three are a loop if their results are equal too."""
ROOM: dict[str, int | None] = {"steps": MOST_INPUTS, "tool_calls": None, "refusals": MOST_INPUTS, "repeats": 3}
"""Limits with which such a turn ends as a loop, and not otherwise."""
UNKNOWN_CONTEXT = 4096
"""The assumed tokens of a context, for engines without a configuration."""


@frozen
class Plan:
    """A conversation on purpose: its messages, and how the effects in flight are answered."""

    messages: tuple[UserSpoke, ...]
    replies: tuple[ModelReplied, ...] = ()
    """The model's first replies, with ``ANY``; after them it answers in text."""
    refused: bool = False
    """Whether the user refuses every call."""
    result: str = ""
    """The result of every call; empty: one of its own for each."""

    def inputs(self, world: Callable[[], World]) -> Iterator[Input]:
        """Yield the inputs one by one; ``world`` returns the situation after those before."""
        replies, stray, strayed = iter(self.replies), ToolReturned(FOREIGN, "late"), False
        yield stray
        for message in self.messages:
            yield message
            for _ in range(MOST_INPUTS):
                if not (open_ := world().open):
                    break
                if isinstance(open_[0], CallTool) and not strayed:
                    strayed = True
                    yield stray
                yield self._answer(open_[0], replies)

    def _answer(self, effect: Effect, replies: Iterator[ModelReplied]) -> Input:
        if isinstance(effect, AskApproval) and self.refused:
            return ApprovalRefused(effect.effect_id, "no")
        if isinstance(effect, CallTool) and self.result:
            return ToolReturned(effect.effect_id, self.result)
        if isinstance(effect, CallModel) and effect.purpose != "summary" and (reply := next(replies, None)) is not None:
            return readdress(reply, effect.effect_id)
        return answer(effect)


def plans(subject: EngineUnderTest) -> Iterator[Plan]:
    """Return conversations that lead most engines with these tools to every premise: messages that name a tool,
    replies that call each tool alone and each two together, refusals, calls without end, and messages too long for the
    context.
    """
    config, hello = subject.config, UserSpoke("Hello")
    names = [tool.name for tool in config.tools] if config is not None else []
    letters = [letter for letter in default_alphabet(config) if isinstance(letter, ModelReplied)]
    yield from (Plan((UserSpoke(text),)) for name in names for text in (name, f"Call {name}."))
    yield from (Plan((hello,), (letter,)) for letter in letters)
    yield from (Plan((hello,), (letter,), refused=True) for letter in letters)
    for name in names or ["nowhere"]:
        yield Plan((hello,), _replies(subject, name))
    long = UserSpoke("long " * ((subject.budget or UNKNOWN_CONTEXT) // 5))  # a third: three characters are a token
    yield Plan((long,) * MESSAGES)


def equal_calls(law: Law) -> Iterator[tuple[Law, Plan]]:
    """Return for L6 conversations that drawn runs hardly lead to: equal calls of each tool, with equal results and with
    different ones.
    """
    if law.name != "L6" or law.alphabet is not None or law.subject.config is None:
        return
    subject = law.subject.limited(**ROOM) or law.subject
    for tool in law.subject.config.tools:
        again = _replies(subject, tool.name)[:1] * SEVERAL
        for result in ("the same", ""):
            yield evolve(law, subject=subject), Plan((UserSpoke("Hello"),), again, result=result)


def _replies(subject: EngineUnderTest, name: str) -> tuple[ModelReplied, ...]:
    """Return replies that call a tool, each with other arguments."""
    config = subject.config
    calls = [ProposedCall(name, f'{{"n": {number}}}') for number in range(MOST_INPUTS)]
    replies = [ModelReplied(ANY, calls=(call,)) for call in calls]
    if config is not None and config.protocol != "native":
        replies = [in_text(reply, config.protocol) for reply in replies]
    return tuple(replies)


def settings(law: Law, missing: Sequence[str]) -> Iterator[Law]:
    """Return the law for the engine, and for the same engine with settings that make a premise likely: a rule that asks
    about every call, a rule that denies every call, few steps. Missing premises are named by the parts they need.
    """
    yield law
    subject = law.subject
    if law.name == "L5" and "policy" in missing:
        for action in ("ask", "deny"):
            if stricter := subject.stricter(Rule(action, "*")):
                yield stricter_law(law, stricter)
    if law.name == "L6" and "limits" in missing and (limited := subject.limited(steps=2)):
        yield evolve(law, subject=limited)


def stricter_law(law: Law, subject: EngineUnderTest) -> Law:
    """Return L5 for the engine with one more rule, which must not permit more than the engine without it."""
    both = (check_permitted, lambda _subject, edge: check_permitted(law.subject, edge))
    return evolve(law, subject=subject, edges=both)
