"""Add token counts to inputs, for models with a local tokenizer (``docs/context-sizes.md``).

The cost of a message is measured by rendering a small conversation twice: with the message, and with one word in its
place. The difference includes the template's markers, its format of calls and its escapes. The counts come from the
model; after an impossible count, the counter warns once and stops counting.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import define, evolve, field

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    Candidate,
    CogstepError,
    History,
    Input,
    MemoryRecalled,
    Message,
    ModelReplied,
    ModelRequest,
    TemplateCosts,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    UserMessage,
    UserSpoke,
    WorkerFinished,
)
from cognition.context.cut_note import CutNote
from cognition.context.summaries import INSTRUCTION, MOST_WORDS
from cognition.context.window import request_size
from cognition.steps.inputs import error_text
from cognition.values.counts import EDGE, MOST_TOKENS, PIECE, Tokens, most_tokens
from interpreters.loop.driver import Driver
from interpreters.loop.program.program import Program
from runtime.protocol.model import TextCounter

WORD = "x"
CALL_ID = "call-99999-{}-{}"
"""Format of the call ids in measured messages.

Ids within a message differ, because servers drop a call with a duplicate id. A result follows the call with its id.
"""
MARGIN = 2
"""Tokens added to each measured cost. Tokenization at the edges of a text depends on its neighbours."""
FAR_TOO_MANY = 8, 4096
"""Maximum tokens per byte of a message, and a constant for the template's text."""
AROUND = '<instructions>\n<source name="notes.md">\n&lt;/source>&amp;lt;\n</source>\n</instructions>\n'
"""Sample of the markup around chosen sections of a prompt, with escaped tags inside."""
REMEMBERED = 8
BESIDES = 8
"""Tokens allowed for a text beyond twice its bytes."""
QUOTES, WIDE = '"\\\n\t' * 8, "\u8a9e" * 16
"""Results that become longer if a template writes them as JSON (``QUOTES``) or as ASCII JSON (``WIDE``)."""

USER, REPLY = UserMessage("m", WORD), AssistantMessage("m", WORD)
RESULT = ToolMessage("m", CALL_ID.format(999, 99), WORD, WORD)

COUNTED: frozenset[type[Input]] = frozenset(
    (UserSpoke, ModelReplied, ToolReturned, ToolFailed, WorkerFinished, MemoryRecalled)
)
"""Input types that contain texts of any length."""


class CountError(Exception):
    """An impossible token count."""


def counter_for(driver: Driver, program: Program, warn: Callable[[str], object]) -> Counter | None:
    """Return the counter of a session.

    Returns None if the model can't count, or if the engine does not expose its configuration and prompts.
    """
    engine: Any = driver.engine
    config = getattr(engine, "config", None)
    if not isinstance(program.model, TextCounter) or CallModel in program.performers:
        return None
    if not isinstance(config, AgentConfig) or not callable(getattr(engine, "build_prompt", None)):
        return None
    return Counter(driver, program, config, warn)


@define(eq=False)
class Measure:
    """Costs measured for one model's template, with one system prompt and its tools."""

    request: ModelRequest
    note: CutNote
    costs: TemplateCosts | None = None
    """None while the costs are being measured."""
    written: Callable[[str], str] = str
    """How the template writes the text of a result."""
    sizes: dict[tuple[Message, ...], int] = field(factory=dict)
    """Token counts of the small sample conversations."""


MEASURES: WeakKeyDictionary[Any, deque[Measure]] = WeakKeyDictionary()
"""The newest measures of each model. Sessions of one program usually share prompt and tools."""


def _measures_of(model: Any) -> deque[Measure]:
    """Return the measures of all sessions on this model; an empty deque if the model can't be a dict key."""
    try:
        return MEASURES.setdefault(model, deque(maxlen=REMEMBERED))
    except TypeError:
        return deque(maxlen=REMEMBERED)


class Counter:
    """Counts the texts in the inputs of one session. Created by ``counter_for``."""

    def __init__(self, driver: Driver, program: Program, config: AgentConfig, warn: Callable[[str], object]) -> None:
        self._driver: Final = driver
        self._model: Any = program.model
        self._context = config.context_tokens
        self._note = CutNote(next((tool.name for tool in config.tools if tool.rereads), ""))
        self._warn = warn
        self._broken = False
        self._measure: Measure | None = None

    def wants(self, event: Input) -> bool:
        """Whether an input contains anything to count."""
        if self._broken or type(event) not in COUNTED:
            return False
        return isinstance(event, UserSpoke) or getattr(self._driver.state, "costs", None) is not None

    def stamped(self, event: Any) -> Any:
        """Return the input with token counts added, or unchanged if counting fails."""
        state: Any = self._driver.state
        if event.tokens or not isinstance(state, AgentState):  # counted by whoever handed it in
            return event
        try:
            return self._stamped(event, state)
        except CogstepError:  # the template refuses this system prompt, or the model's process is gone: others tell
            return event
        except Exception as error:
            self._broken = True
            self._warn(f"the model's token counts can't be used, so that sizes are estimated from here on: {error}")
            return event

    def _stamped(self, event: Any, state: AgentState) -> Any:
        system = event.system if isinstance(event, UserSpoke) and event.system is not None else state.system
        costs = self._measured(AgentState(system=system))
        match event:
            case UserSpoke():
                tokens = self._tokens(UserMessage("m", event.text, "user", event.parts), costs)
                event = evolve(event, tokens=tokens, dense=self._dense(event.context))
                if costs == state.costs:
                    return event
                earlier = () if costs.counts_alike(state.costs) else self._earlier(state, costs)
                return evolve(event, costs=costs, earlier=earlier)
            case ModelReplied():
                calls = tuple([ToolCall("", call.name, call.arguments_json) for call in event.calls])
                message: Message = AssistantMessage("m", event.text, event.reasoning, calls)
            case _:
                message = ToolMessage("m", "", self._name(event), _result_text(event))
        return evolve(event, tokens=self._tokens(message, costs))

    def _earlier(self, state: AgentState, costs: TemplateCosts) -> tuple[Tokens, ...]:
        """Return the tokens of the newest messages of history, as many as fit into the context."""
        newest: list[Tokens] = []
        left = self._context
        for message in reversed(self._driver.revealed(state.history)):
            tokens = self._tokens(message, costs)
            newest.append(tokens)
            left -= sum(tokens)
            if left < 0:
                break
        return tuple(reversed(newest))

    def _dense(self, candidates: Sequence[Candidate]) -> int:
        """Return the maximum tokens in ``PIECE`` characters of these candidates or of the markup around them."""
        if not candidates:
            return 0
        text = "\n".join([candidate.text for candidate in candidates])
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)][:-1]
        around, last, *whole = self._texts([AROUND.ljust(PIECE, "<"), text[-PIECE:], *pieces])
        return max(around, -(-last * PIECE // max(min(len(text), PIECE), 1)), *whole)

    def _name(self, event: Any) -> str:
        call = getattr(self._driver.in_flight.get(event.effect_id), "call", None)
        return WORD if call is None else str(call.name)

    # --------------------------------------------------------------------------------------- what one message adds

    def _tokens(self, message: Message, costs: TemplateCosts) -> Tokens:
        try:
            if isinstance(message, ToolMessage):
                return self._result(evolve(message, call_id=RESULT.call_id), costs)
            if isinstance(message, UserMessage):
                return (self._in_place((USER, REPLY), message, USER, ()) + costs.user,)
            return (self._reply(evolve(message, calls=_with_usual_ids(message.calls)), costs),)
        except CogstepError:
            return ()

    def _reply(self, message: AssistantMessage, costs: TemplateCosts) -> int:
        if message.calls:
            number = len(message.calls)
            more = self._in_place((USER,), message, _calling(number), _results(number))
            # A summary is asked for with all of it, also where the template leaves calls out, or writes them otherwise.
            said = [message.text, *[f"{call.name}{call.arguments_json}" for call in message.calls]]
            return max(more + costs.reply + costs.call * number, sum(self._texts(said)))
        more = self._in_place((USER,), message, REPLY, (USER,))
        if message.reasoning:  # templates show that of the newest reply only
            more = max(more, self._in_place((USER,), message, REPLY, ()))
        return more + costs.reply

    def _result(self, message: ToolMessage, costs: TemplateCosts) -> Tokens:
        """Return the tokens of a result without its text, then those of each piece of the text as the template writes
        it.
        """
        text = message.content
        more = self._in_place((USER, _calling(1)), message, RESULT, ())
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
        counts, write = self._texts(pieces), self._current().written
        if write is not str:  # a summary, or notes that were found, show them as they are
            counts = list(map(max, counts, self._texts(list(map(write, pieces)))))
        return (max(more + costs.result - sum(counts), costs.result), *counts)

    def _in_place(self, before: tuple[Message, ...], one: Message, sample: Message, behind: tuple[Message, ...]) -> int:
        """Return how many tokens a conversation gains if the message replaces the sample."""
        more = self._count((*before, one, *behind)) - self._size((*before, sample, *behind))
        a_byte, besides = FAR_TOO_MANY
        if more > a_byte * _bytes(one) + besides:
            raise CountError(f"a message of {_bytes(one)} bytes is to have {more} tokens")
        return max(more, 0)

    # ------------------------------------------------------------------------------------------------- the template's

    def _measured(self, state: AgentState) -> TemplateCosts:
        """Return the costs of a prompt apart from this session's messages."""
        engine: Any = self._driver.engine
        request = self._driver.revealed(engine.build_prompt(state))
        measure = self._measure
        if measure is None or measure.request != request:
            known = _measures_of(self._model)
            found = [one for one in tuple(known) if one.note == self._note and one.request == request]
            measure = found[0] if found else Measure(request, self._note)
            self._measure = measure
            if not found:
                try:
                    measure.costs = self._all_costs(request)
                    measure.written = self._written()
                except BaseException:
                    self._measure = None
                    raise
                known.append(measure)
        assert measure.costs is not None, "a measure without costs is nobody's"
        return measure.costs

    def _all_costs(self, request: ModelRequest) -> TemplateCosts:
        """Measure all costs as differences between conversations. Each cost is the maximum over several places."""
        one_call = _calling(1)
        one, replied = self._size((USER,)), self._size((USER, REPLY))
        answered = self._size((USER, REPLY, USER))
        reply = max(replied - one, answered - self._count_or((USER, USER), answered), 1)
        # Behind another message of the user's nothing goes that a template writes around the newest reply alone.
        user = max(answered - replied, answered - one - reply, self._count_or((USER, USER), one) - one, 1)
        first = self._size((USER, one_call, RESULT))
        both = self._size((USER, _calling(2), *_results(2)))
        again = self._size((USER, one_call, RESULT, one_call, RESULT))
        # A call and its result are never parted: what they cost together counts, however that is shared out.
        pair = max(first - one - reply, both - first, again - first - reply, 2)
        call = min(max(self._count_or((USER, one_call), replied + pair // 2) - replied, 1), pair - 1)
        asking = INSTRUCTION.format(words=MOST_WORDS)
        note, told = self._texts([self._note.longest, asking])
        bare = evolve(request, tools=(), options=evolve(request.options, tool_choice="none"))
        alone = self._count_or((USER,), one, bare)
        asked = self._count_or((UserMessage("m", asking),), alone + told, bare) - alone
        return TemplateCosts(
            fixed=max(one, alone) + MARGIN,
            user=user + MARGIN,
            reply=reply + MARGIN,
            call=call + MARGIN,
            result=pair - call + MARGIN,
            cut=note + EDGE,
            bare=alone + MARGIN,
            asking=max(asked, told) + EDGE,
            estimate=request_size(request),
            model=str(self._model.describe().name),
        )

    def _written(self) -> Callable[[str], str]:
        """Return how the template writes the text of a result: unchanged, as JSON or as ASCII JSON."""
        if self._closest(QUOTES, (str, _json)) is str:
            return str
        return self._closest(WIDE, (_json, _ascii_json))

    def _closest(self, odd: str, ways: Sequence[Callable[[str], str]]) -> Callable[[str], str]:
        """Return the way of writing whose token count is closest to the tokens that the text adds as a result."""
        more = self._in_place((USER, _calling(1)), evolve(RESULT, content=odd), RESULT, ())
        away = [abs(count - 1 - more) for count in self._texts([write(odd) for write in ways])]
        return ways[away.index(min(away))]

    def _size(self, messages: tuple[Message, ...]) -> int:
        sizes = self._current().sizes
        if messages not in sizes:
            sizes[messages] = self._count(messages)
        return sizes[messages]

    def _count_or(self, messages: tuple[Message, ...], otherwise: int, request: ModelRequest | None = None) -> int:
        try:
            return self._count(messages, request)
        except CogstepError:
            return otherwise

    def _count(self, messages: tuple[Message, ...], request: ModelRequest | None = None) -> int:
        asked = self._current().request if request is None else request
        counted = _number(self._model.count_tokens(evolve(asked, messages=History(messages))))
        self._check_counted()
        return counted

    def _check_counted(self) -> None:
        """Raise ``CountError`` if the model now estimates, as a server may do at any time."""
        info = self._model.describe()
        if "estimated_counts" in info.features:
            raise CountError(info.warnings[-1] if info.warnings else "they are estimates")

    def _current(self) -> Measure:
        assert self._measure is not None, "it was measured before"
        return self._measure

    def _texts(self, texts: Sequence[str]) -> list[int]:
        counts = [_number(count) for count in self._model.count_texts(texts)] if texts else []
        if len(counts) != len(texts):
            self._check_counted()
            raise CountError(f"{len(texts)} texts were to be counted, and {len(counts)} counts came back")
        for count, text in zip(counts, texts, strict=True):
            if count > 2 * most_tokens(text) + BESIDES:
                raise CountError(f"a text of {most_tokens(text)} bytes is to have {count} tokens")
        return counts


def _with_usual_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple([evolve(call, id=CALL_ID.format(999 - at // 90, 99 - at % 90)) for at, call in enumerate(calls)])


def _calling(number: int) -> AssistantMessage:
    return AssistantMessage("m", WORD, calls=_with_usual_ids([ToolCall("", WORD)] * number))


def _results(number: int) -> tuple[ToolMessage, ...]:
    return tuple([evolve(RESULT, call_id=call.id) for call in _calling(number).calls])


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise CountError(f"a number of tokens has to be a whole number from 0 to {MOST_TOKENS}")
    return value


def _bytes(message: Message) -> int:
    if isinstance(message, ToolMessage):
        return most_tokens(message.content)
    if isinstance(message, UserMessage):
        return most_tokens(message.text)
    calls = "".join([call.name + call.arguments_json for call in message.calls])
    return most_tokens(message.text) + most_tokens(message.reasoning) + most_tokens(calls)


def _result_text(event: Any) -> str:
    match event:
        case ToolReturned():
            return event.content
        case ToolFailed():
            return error_text(event.message)
        case MemoryRecalled():
            return "\n".join(event.items)
        case _:
            text: str = event.text
            return text
