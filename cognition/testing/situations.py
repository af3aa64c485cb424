"""The alphabet of an exploration, and when two worlds are the same situation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from attrs import evolve

from cognition.candidates import DEFAULT_SECTIONS, Candidate
from cognition.codec import to_data
from cognition.config import AgentConfig
from cognition.counts import TemplateCosts
from cognition.decisions import CallModel, Effect
from cognition.inputs import (
    CompactionAsked,
    HookReturned,
    Input,
    ModeChanged,
    ModelChosen,
    ModelFailed,
    ModelReplied,
    UserSpoke,
)
from cognition.messages import ProposedCall, ToolCall, Usage
from cognition.outcomes import Failure
from cognition.state import AgentState
from cognition.testing.letters import ANY, LETTERS, REPLIES
from cognition.testing.subject import UNREADABLE
from cognition.testing.world import World
from cognition.text_protocol import TextProtocol
from cognition.vocabulary import engine_tools


def default_alphabet(config: AgentConfig | None = None) -> tuple[Input, ...]:
    """What can happen, in few inputs: enough for an engine with these tools to get everywhere.

    A reply with text, with nothing, with each tool called alone, with each two called together, with an unknown and an
    unreadable call; failures that are waited out, trimmed for, given up on or cut short; results good and bad;
    approvals given and refused, once and for all, with other arguments, and forgotten; timers; cancel, reset and
    shutdown. In a text protocol, calls stand in the text: one that asks for a confirmation, and one beside an answer,
    too. Where older messages are summarised, a long message of the user's, and somebody who asks for a summary. Where
    there are sections of the program's own, a message with texts for them, and one from which on tokens are counted.
    Where there are several models, one that is not there, a choice of another one, and a message much later.
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
        confirmed = [ProposedCall(tool.name, confirm=True) for tool in tools[:1]]
        replies += [ModelReplied(ANY, calls=(call,)) for call in confirmed]
        replies += [ModelReplied(ANY, "Done.", calls=(call,)) for call in calls[:1]]
        replies = [_in_text(reply, config.protocol) for reply in replies]
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
"""Opens the breaker of a model at once."""
MUCH_LATER = UserSpoke("Hello", at=1e4)
"""By then all breakers let a call through again."""
LONG = UserSpoke("long " * 60)
"""Some 100 tokens: a few of them fill the contexts that explorations have."""
WITH_CONTEXT = UserSpoke("Hello", context=(Candidate("identity", "Be kind."), Candidate("memory", "Hello was said.")))
"""Something for a section behind the system prompt, where there is one of that name, and for one with the message."""
COUNTED = UserSpoke(
    "Hello",
    tokens=(8,),
    costs=TemplateCosts(40, user=4, reply=4, call=8, result=6, cut=20, bare=30, asking=200, estimate=20.0),
)
"""From here on tokens are counted, and what nobody counts has the most that it can have."""


def _in_text(reply: ModelReplied, protocol: TextProtocol) -> ModelReplied:
    """A reply whose calls are written as a text protocol has them."""
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
"""For each tool that an engine carries out itself, calls of it that do something."""


def situation(world: World) -> bytes:
    """Equal for worlds that differ in names only: a digest of 16 bytes.

    What is left out, and why nothing is lost by it:

    - *The names.* Ids of messages, calls and effects are numbered in the order in which they occur. An engine gives
      ids and compares them, and which text an id has decides nothing; that two things have the same id is kept.
    - *The counters* that ids are made of, for the same reason, and so the turn's number: the only other thing that it
      decides is the jitter of a retry's delay, of which no law speaks.
    - *The usage of all turns together*, which is added to and read by nobody.
    - *The request* of a model call in flight: the laws have judged it in the step that decided it.
    - *Effects that are over*: an engine does not see them other than through its state. Late answers are tried for
      those of the shortest way to a situation.

    The history is kept with all texts. Two different situations have the same digest with a probability of 2**-128 for
    each pair.
    """
    data = _data(world.state)
    text = json.dumps([data, [_effect(effect) for effect in world.open], _account(world)], default=repr)
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[1], str(len(names)))

    return blake2b(NAMES.sub(rename, text).encode(), digest_size=16).digest()


NAMES = re.compile(r'"(?:id|effect_id|call_id)": "((?:[^"\\]|\\.)*)"')
"""Every field with an id. Within a text quotes are escaped, so what looks like such a field there is not one."""


def _data(state: object) -> Any:
    """The state as data; a state that can't be recorded, which L8 will say, as the text of its value."""
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
    """What is counted from outside; for an engine that counts right it adds nothing to the state."""
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
