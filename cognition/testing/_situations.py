"""The alphabet of an exploration, and the equality of situations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from attrs import evolve

from cognition.parsing.text_protocol import TextProtocol
from cognition.steps.codec import to_data
from cognition.steps.config import AgentConfig
from cognition.steps.decisions import CallModel, Effect
from cognition.steps.inputs import (
    CompactionAsked,
    HookReturned,
    Input,
    ModeChanged,
    ModelChosen,
    ModelFailed,
    ModelReplied,
    UserSpoke,
)
from cognition.steps.state import AgentState
from cognition.steps.vocabulary import engine_tools
from cognition.testing._engine_under_test import UNREADABLE
from cognition.testing._sample_inputs import ANY, LETTERS, REPLIES
from cognition.testing._world import World
from cognition.values.candidates import DEFAULT_SECTIONS, Candidate
from cognition.values.counts import TemplateCosts
from cognition.values.messages import ProposedCall, ToolCall, Usage
from cognition.values.outcomes import Failure


def default_alphabet(config: AgentConfig | None = None) -> tuple[Input, ...]:
    """Return a few inputs that let an engine with these tools reach every situation:

    - replies with text, with nothing, with each tool called alone, with each two called together, and with an unknown
      and an unreadable call;
    - failures that lead to waiting, to trimming, to giving up or to a partial reply;
    - good and bad results;
    - approvals given and refused, once and permanently, with other arguments, and forgotten;
    - timers, cancel, reset and shutdown.

    A text protocol adds calls in the text: a call that needs confirmation, and a call beside an answer. Summaries add a
    long user message, and a request for a summary. Custom sections add a message with texts for them, and a message
    that starts token counting. Several models add a model that is unavailable, a choice of another model, and a much
    later message.
    """
    tools = config.tools if config is not None else ()
    calls = [ProposedCall(tool.name) for tool in tools]
    engine_calls = [
        ProposedCall(tool.name, text)
        for tool in (engine_tools(config.features, config.names) if config is not None else ())
        for text in ENGINE_ARGUMENTS[tool.name]
    ]
    pairs = [(one, evolve(other, arguments_json='{"n": 2}')) for one in calls[:2] for other in calls[:2]]
    replies = [
        *REPLIES,
        *(ModelReplied(ANY, calls=(call,), usage=Usage(0, 5)) for call in (*calls[2:], *engine_calls)),
        *(ModelReplied(ANY, calls=pair) for pair in pairs),
    ]
    if len(engine_calls) > 1:
        replies.append(ModelReplied(ANY, calls=tuple(engine_calls[-2:])))
    if config is not None and config.protocol != "native":
        replies += [ModelReplied(ANY, calls=(ProposedCall(tool.name, confirm=True),)) for tool in tools[:1]]
        replies += [ModelReplied(ANY, "Done.", calls=(call,)) for call in calls[:1]]
        replies = [in_text(reply, config.protocol) for reply in replies]
    letters = {**LETTERS, ModelReplied: tuple(replies)}
    if config is None or not config.hooks:
        del letters[HookReturned]
    if config is None or "plan" not in config.features:
        del letters[ModeChanged]
    if config is None or not config.models:
        del letters[ModelChosen]
    else:
        letters[ModelChosen] = (ModelChosen(""), ModelChosen(config.models[0]))
        letters[ModelFailed] = (*letters[ModelFailed], GONE)
        letters[UserSpoke] = (*letters[UserSpoke], MUCH_LATER)
    if config is None or config.compact_at is None:
        del letters[CompactionAsked]
    else:
        letters[UserSpoke] = (*letters[UserSpoke], LONG)
    if config is not None and config.sections != DEFAULT_SECTIONS:
        letters[UserSpoke] = (*letters[UserSpoke], WITH_CONTEXT, COUNTED)
    return tuple(letter for some in letters.values() for letter in some)


GONE = ModelFailed(ANY, Failure("connection refused", kind="offline"))
"""Opens a model's breaker immediately."""
MUCH_LATER = UserSpoke("Hello", at=1e4)
"""By then all breakers let a call through again."""
LONG = UserSpoke("long " * 60)
"""About 100 tokens: a few of them fill the contexts that explorations use."""
WITH_CONTEXT = UserSpoke("Hello", context=(Candidate("identity", "Be kind."), Candidate("memory", "Hello was said.")))
"""Texts for a section after the system prompt, if there is one of that name, and for a section with the message."""
COUNTED = UserSpoke(
    "Hello",
    tokens=(8,),
    costs=TemplateCosts(40, user=4, reply=4, call=8, result=6, cut=20, bare=30, asking=200, estimate=20.0),
)
"""Starts token counting. Uncounted texts then have their upper bound."""


def in_text(reply: ModelReplied, protocol: TextProtocol) -> ModelReplied:
    """Return a reply with its calls written as text."""
    if not reply.calls and not reply.malformed:
        return reply
    if protocol == "tool_tags":
        written = [f"<tool>{call.name}</tool><args>{call.arguments_json}</args>" for call in reply.calls]
        text = "".join(written) + (f"<response>{reply.text}</response>" if reply.text else "") or "<tool>"
    else:
        objects = [_short_keys(call) for call in reply.calls]
        objects += [json.dumps({"f": reply.text})] if reply.text else []
        text = f"[{', '.join(objects)}]" if objects else '{"a": '
    return ModelReplied(reply.effect_id, text, usage=reply.usage)


def _short_keys(call: ProposedCall) -> str:
    confirm = ', "c": true' if call.confirm else ""
    return f'{{"a": {json.dumps(call.name)}, "i": {call.arguments_json}{confirm}}}'


ENGINE_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "ask_user": ('{"questions": [{"question": "Really?", "options": ["yes", "no"]}]}', "{}"),
    "update_tasks": ('{"tasks": [{"title": "Look", "status": "in_progress"}]}',),
    "enter_plan_mode": ("{}",),
    "submit_plan": ('{"steps": ["look", "write"]}',),
    "finish_step": ("{}",),
    "remember": ('{"text": "a note"}',),
    "recall": ('{"query": "notes"}',),
    "spawn_worker": ('{"name": "one", "objective": "look"}', '{"name": "two", "objective": "do", "after": ["one"]}'),
    "AskUserQuestion": (
        '{"questions": [{"question": "Really?", "header": "Sure", "options": '
        '[{"label": "yes", "description": "do it"}, {"label": "no", "description": ""}], "multiSelect": false}]}',
        "{}",
    ),
    "TodoWrite": ('{"todos": [{"content": "Look", "status": "in_progress", "activeForm": "Looking"}]}',),
    "EnterPlanMode": ("{}",),
    "ExitPlanMode": ('{"plan": "1. look\\n2. write"}',),
    "Task": ('{"description": "one", "prompt": "look"}', '{"description": "two", "prompt": "do"}'),
}
"""For each tool that an engine executes itself, calls that have an effect."""


def situation(world: World) -> bytes:
    """Return a digest of 16 bytes, equal for worlds that differ only in names.

    It omits these parts, without loss:

    - *Names.* Ids of messages, calls and effects are numbered in order of occurrence. An engine only creates and
      compares ids, so their text has no influence. Equality of ids is preserved.
    - *Counters* for new ids, for the same reason, and so the turn's number. It also determines the jitter of a retry's
      delay, but no law depends on that.
    - *The usage of all turns together*, which is only added to and never read.
    - *The request* of a model call in flight: the laws have checked it in the step that decided it.
    - *Effects that have ended*: an engine sees them only through its state. Late answers are tried for those of the
      shortest way to a situation.

    The history is included with all texts. Two different situations have the same digest with a probability of 2**-128
    for each pair.
    """
    data = _data(world.state)
    text = json.dumps([data, [_effect(effect) for effect in world.open], _account(world)], default=repr)
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[1], str(len(names)))

    return blake2b(NAMES.sub(rename, text).encode(), digest_size=16).digest()


NAMES = re.compile(r'"(?:id|effect_id|call_id)": "((?:[^"\\]|\\.)*)"')
"""Every field with an id. Quotes inside a text are escaped, so text that looks like such a field does not match."""


def _data(state: object) -> Any:
    """Return the state as data, or as the text of its value if it can't be encoded, which L8 reports."""
    try:
        data = to_data(state)
    except UNREADABLE:
        return {"unreadable": repr(state)}
    if isinstance(state, AgentState):
        data.pop("counters", None)
        data.pop("total", None)
    return data


def _effect(effect: Effect) -> Any:
    return [effect.purpose, {"effect_id": effect.effect_id}] if isinstance(effect, CallModel) else to_data(effect)


def _account(world: World) -> list[Any]:
    """Return the counts made from outside. For an engine that counts correctly they add nothing to the state."""
    turn = world.turn
    granted: list[Any] = to_data((world.granted, world.changed), tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]])
    if turn is None:
        return [*granted, world.closed]
    granted += [[{"id": call.id} for call in some] for some in (world.approved, world.failed) if some]
    ran = [{"id": call.id} for call in turn.ran]
    usage = turn.usage
    used = [usage.input_tokens, usage.output_tokens, usage.reused_tokens, usage.cost]
    counts = (turn.started_at, turn.replies, turn.calls, turn.refusals, turn.workers, turn.continued, turn.asked_at)
    return [granted, counts, used, ran, turn.summarised]
