"""Add token counts to inputs, for models with a local tokenizer (``docs/concepts/context-sizes.md``).

A message costs what the template writes around a message of its kind, and the tokens of its texts. The first is
measured once, by rendering small conversations with one word in each message. So is the way the template writes texts:
as they are, as JSON, or not at all. Then only the tokenizer is asked about a new message. A message of a kind that the
template writes in another way is rendered in such a conversation. After an impossible count, the counter warns once and
stops counting.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen

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
from cognition.base.strict_json import LENIENT
from cognition.context.cut_note import SKIPPED, CutNote
from cognition.context.summaries import INSTRUCTION, MOST_DIGITS, MOST_WORDS
from cognition.context.window import request_size
from cognition.steps.inputs import error_text
from cognition.values.content import images_of
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
SHORT = 64
"""A user's text with at most so many bytes is not counted: each byte counts as a token until a reply tells more."""
AROUND_A_TEXT = 16
"""Tokens that a template may write around a text beside the measured costs, as around a reply's reasoning."""
ODD = '"\\\n\t<&>' * 8 + "\u8a9e" * 16, f"{WORD} " * 60
"""Texts that show how a template writes a text: the first becomes longer as JSON, and again as ASCII JSON. The second
is longer than anything that a template writes around a text.
"""

USER, REPLY = UserMessage("m", WORD), AssistantMessage("m", WORD)
RESULT = ToolMessage("m", CALL_ID.format(999, 99), WORD, WORD)

RESULT_TEXTS: Mapping[type[Input], Callable[[Any], str]] = {
    ToolReturned: attrgetter("content"),
    ToolFailed: lambda event: error_text(event.message),
    WorkerFinished: attrgetter("text"),
    MemoryRecalled: lambda event: "\n".join(event.items),
}
"""The text of a result, by the input that brings it."""
COUNTED: frozenset[type[Input]] = frozenset((UserSpoke, ModelReplied, *RESULT_TEXTS))
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


Kind = Literal["user", "reply", "thought", "call", "result"]
"""The kinds of texts in messages."""

Way = Callable[[str], str]
"""How a template writes a text."""


@frozen
class Place:
    """Where a kind of text is measured: a small conversation, and a message in it that has the text."""

    before: tuple[Message, ...]
    sample: Message
    """The message with one word, or nothing, as its text."""
    behind: tuple[Message, ...]
    write: Callable[[str], Message]
    """Returns the message with this text."""
    ways: Sequence[Way]
    odd: Sequence[str] = ODD


@define(eq=False)
class Measure:
    """Costs measured for one model's template, with one system prompt and its tools."""

    request: ModelRequest
    note: CutNote
    costs: TemplateCosts | None = None
    """None while the costs are being measured."""
    ways: dict[Kind, tuple[Way, int] | None] = field(factory=dict)
    """How the template writes each kind of text, and the tokens that it writes around it; None: in no known way."""
    sizes: dict[str | tuple[Message, ...], int] = field(factory=dict)
    """Token counts of tools' names and of the small sample conversations."""


MEASURES: WeakKeyDictionary[Any, deque[Measure]] = WeakKeyDictionary()
"""The newest measures of each model. Sessions of one program usually share prompt and tools."""


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
        self._system: str | None = None
        """The system prompt of the state that was measured."""

    def has_texts(self, event: Input) -> bool:
        """Whether an input contains anything to count."""
        if self._broken or type(event) not in COUNTED:
            return False
        state: Any = self._driver.state
        costs = getattr(state, "costs", None)
        if not isinstance(event, UserSpoke):
            return costs is not None
        if self._measure is None or self._measure.costs != costs or self._system != state.system:
            return True
        brings = event.system is not None or event.context or self._driver.redactor is not None
        return bool(brings) or not self._is_short(event)

    def _is_short(self, event: UserSpoke) -> bool:
        """Whether a byte of the text counts as a token. The template has to write it as it is."""
        short = not event.parts and most_tokens(event.text) <= SHORT
        return short and self._way("user") == (str, 0)

    def add_counts(self, event: Any) -> Any:
        """Return the input with token counts added, or unchanged if counting fails."""
        state: Any = self._driver.state
        if event.tokens or not isinstance(state, AgentState):  # counted by whoever handed it in
            return event
        try:
            return self._add_counts(event, state)
        except CogstepError:  # the template refuses this system prompt, or the model's process is gone: others tell
            return event
        except Exception as error:
            self._broken = True
            self._warn(f"the model's token counts can't be used, so that sizes are estimated from here on: {error}")
            return event

    def _add_counts(self, event: Any, state: AgentState) -> Any:
        system = event.system if isinstance(event, UserSpoke) and event.system is not None else state.system
        costs = self._measured(AgentState(system=system))
        match event:
            case UserSpoke():
                if not self._is_short(event):
                    event = evolve(event, tokens=self._tokens(UserMessage("m", event.text, "user", event.parts), costs))
                elif self._driver.redactor is not None:  # the core may see a shorter text in place of a secret
                    event = evolve(event, tokens=(costs.user + most_tokens(event.text),))
                if event.context:
                    event = evolve(event, dense=self._dense(event.context))
                if costs == state.costs:
                    return event
                earlier = () if costs.counts_alike(state.costs) else self._earlier(state, costs)
                return evolve(event, costs=costs, earlier=earlier)
            case ModelReplied():
                calls = tuple([ToolCall("", call.name, call.arguments_json) for call in event.calls])
                message: Message = AssistantMessage("m", event.text, event.reasoning, calls)
            case _:
                call = getattr(self._driver.in_flight.get(event.effect_id), "call", None)
                name = WORD if call is None else str(call.name)
                message = ToolMessage("m", "", name, RESULT_TEXTS[type(event)](event))
        return evolve(event, tokens=self._tokens(message, costs))

    def _earlier(self, state: AgentState, costs: TemplateCosts) -> tuple[Tokens, ...]:
        """Return the tokens of the newest messages of history, as many as fit into the context."""
        newest: deque[Tokens] = deque()
        left = self._context
        for message in reversed(self._driver.reveal(state.history)):
            newest.appendleft(self._tokens(message, costs))
            left -= sum(newest[0])
            if left < 0:
                break
        return tuple(newest)

    def _dense(self, candidates: Sequence[Candidate]) -> int:
        """Return the maximum tokens in ``PIECE`` characters of these candidates or of the markup around them."""
        text = "\n".join([candidate.text for candidate in candidates])
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)][:-1]
        around, last, *whole = self._texts([AROUND.ljust(PIECE, "<"), text[-PIECE:], *pieces])
        return max(around, -(-last * PIECE // max(min(len(text), PIECE), 1)), *whole)

    # --------------------------------------------------------------------------------------- what one message adds

    def _tokens(self, message: Message, costs: TemplateCosts) -> Tokens:
        try:
            if isinstance(message, ToolMessage):
                return self._result(evolve(message, call_id=RESULT.call_id), costs)
            if isinstance(message, UserMessage):
                if message.parts and images_of(message.parts):
                    return (self._in_place(PLACES["user"], message) + costs.user,)
                return (self._written([("user", message.text)], message) + costs.user,)
            return (self._reply(evolve(message, calls=_with_usual_ids(message.calls)), costs),)
        except CogstepError:
            return ()

    def _reply(self, message: AssistantMessage, costs: TemplateCosts) -> int:
        texts: list[tuple[Kind, str]] = [("reply", message.text), ("thought", message.reasoning)]
        texts += [("call", call.arguments_json) for call in message.calls]
        names = sum([self._size(call.name) for call in message.calls])
        return self._written(texts, message) + names + costs.reply + costs.call * len(message.calls)

    def _result(self, message: ToolMessage, costs: TemplateCosts) -> Tokens:
        """Return the tokens of a result without its text, then those of each piece of the text as the template writes
        it.
        """
        text, way = message.content, self._way("result")
        write, around = way or (str, 0)
        # A summary, or notes that were found, show the pieces as they are.
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
        counts = self._most([(piece, write(piece)) for piece in pieces])
        if way is None:
            around = max(self._in_place(PLACES["result"], message) - sum(counts), 0)
        return (costs.result + around + self._size(message.name), *counts)

    def _written(self, texts: Sequence[tuple[Kind, str]], message: Message) -> int:
        """Return the tokens of a message's texts as the template writes them."""
        texts = [(kind, text) for kind, text in texts if text]
        ways = [self._way(kind) for kind, _ in texts]
        known = [way for way in ways if way is not None]
        # A summary is asked for with all calls, also where the template leaves them out, or writes them otherwise.
        bare = [text if kind == "call" else "" for kind, text in texts]
        if len(known) == len(texts):
            written = [write(text) for (write, _), (_, text) in zip(known, texts, strict=True)]
            return sum(self._most(list(zip(written, bare, strict=True)))) + sum([around for _, around in known])
        shown = [(text,) for kind, text in texts if any(bare) and kind != "thought"]
        kinds: list[Kind] = ["call"] if any(bare) else [kind for kind, _ in texts]
        return max(*[self._in_place(PLACES[kind], message) for kind in kinds], sum(self._most(shown)))

    def _most(self, forms: Sequence[Sequence[str]]) -> list[int]:
        """Return the tokens of each text in the longest of its forms."""
        texts = list(dict.fromkeys([text for form in forms for text in form if text]))
        counts = {"": 0, **dict(zip(texts, self._texts(texts), strict=True))}
        return [max([counts[text] for text in form]) for form in forms]

    def _way(self, kind: Kind) -> tuple[Way, int] | None:
        ways = self._current().ways
        if kind not in ways:
            try:
                ways[kind] = self._measured_way(PLACES[kind])
            except CogstepError:  # the template refuses this conversation
                ways[kind] = None
        return ways[kind]

    def _measured_way(self, place: Place) -> tuple[Way, int] | None:
        """Return the way with the fewest tokens of those that explain all tokens of odd texts; None if none does."""
        needed = [self._in_place(place, place.write(odd)) for odd in place.odd]
        found: list[tuple[int, Way, int]] = []
        for way in place.ways:
            counts = self._texts([way(odd) for odd in place.odd])
            around = max(more - count for more, count in zip(needed, counts, strict=True))
            if around <= AROUND_A_TEXT:
                found.append((sum(counts), way, max(around, 0)))
        best = min(found, key=lambda one: one[0], default=None)
        return None if best is None else best[1:]

    def _in_place(self, place: Place, one: Message) -> int:
        """Return how many tokens a conversation gains if the message replaces the sample."""
        behind, sample = place.behind, place.sample
        if isinstance(one, AssistantMessage) and one.calls:
            behind, sample = _results(len(one.calls)), _calling(len(one.calls))
        more = self._count((*place.before, one, *behind)) - self._size((*place.before, sample, *behind))
        a_byte, besides = FAR_TOO_MANY
        if more > a_byte * _bytes(one) + besides:
            raise CountError(f"a message of {_bytes(one)} bytes is to have {more} tokens")
        return max(more, 0)

    # ------------------------------------------------------------------------------------------------- the template's

    def _measured(self, state: AgentState) -> TemplateCosts:
        """Return the costs of a prompt apart from this session's messages."""
        measure, engine = self._measure, self._driver.engine
        if measure is not None and measure.costs is not None and state.system == self._system:
            return measure.costs
        request = self._driver.reveal(engine.build_prompt(state))  # type: ignore[attr-defined]  # asked in ``counter_for``
        if measure is None or measure.request != request:
            known: deque[Measure] = deque(maxlen=REMEMBERED)
            with suppress(TypeError):  # a model that can't be a key of such a dict
                known = MEASURES.setdefault(self._model, known)
            found = [one for one in tuple(known) if one.note == self._note and one.request == request]
            measure = found[0] if found else Measure(request, self._note)
            self._measure = measure
            if not found:
                try:
                    measure.costs = self._all_costs(request)
                except BaseException:
                    self._measure = None
                    raise
                known.append(measure)
        self._system = state.system
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
        note, told, skipped = self._texts([self._note.longest, asking, SKIPPED.format("9" * MOST_DIGITS)])
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
            skipped=skipped + EDGE,
        )

    def _size(self, of: str | tuple[Message, ...]) -> int:
        sizes = self._current().sizes
        if of not in sizes:
            sizes[of] = self._texts([of])[0] if isinstance(of, str) else self._count(of)
        return sizes[of]

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


def _calling(number: int, arguments: str = "{}") -> AssistantMessage:
    return AssistantMessage("m", WORD, calls=_with_usual_ids([ToolCall("", WORD, arguments)] * number))


def _results(number: int) -> tuple[ToolMessage, ...]:
    return tuple([evolve(RESULT, call_id=call.id) for call in _calling(number).calls])


def _as_text(**how: Any) -> Way:
    """Return how a template writes a text as JSON, with the arguments of ``json.dumps``."""
    return lambda text: json.dumps(text, **how)[1:-1]


def _as_object(**how: Any) -> Way:
    """Return how a template writes arguments as JSON, with the arguments of ``json.dumps``."""

    def write(arguments: str) -> str:
        try:
            return json.dumps(LENIENT.decode(arguments), **how)
        except (ValueError, RecursionError) as error:  # a template refuses them too
            raise CogstepError("the arguments are no JSON") from error

    return write


MANY = range(1, 13)
ODD_ARGUMENTS = (
    json.dumps({"text": ODD[0], **{WORD * n: n for n in MANY}}),
    json.dumps({"text": ODD[1], "values": [[n, {WORD: n % 2 == 0}] for n in MANY]}),
    json.dumps({WORD * n: {WORD: [None, "", WORD]} for n in MANY}),
)
"""Many short arguments and values, around which a template may write more than around a long one."""

TEXTS: Sequence[Way] = (str, _as_text(ensure_ascii=False), _as_text())
ARGUMENTS: Sequence[Way] = (str, _as_object(ensure_ascii=False), _as_object(), _as_object(ensure_ascii=False, indent=2))
PLACES: Mapping[Kind, Place] = {
    "user": Place((USER, REPLY), USER, (), lambda text: UserMessage("m", text), TEXTS),
    "reply": Place((USER,), REPLY, (USER,), lambda text: AssistantMessage("m", text), TEXTS),
    "thought": Place((USER,), REPLY, (), lambda text: AssistantMessage("m", WORD, text), (lambda _: "", *TEXTS)),
    "call": Place((USER,), _calling(1), _results(1), partial(_calling, 1), ARGUMENTS, ODD_ARGUMENTS),
    "result": Place((USER, _calling(1)), RESULT, (), lambda text: evolve(RESULT, content=text), TEXTS),
}


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise CountError(f"a number of tokens has to be a whole number from 0 to {MOST_TOKENS}")
    return value


def _bytes(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        calls = "".join([call.name + call.arguments_json for call in message.calls])
        return most_tokens(message.text) + most_tokens(message.reasoning) + most_tokens(calls)
    return most_tokens(message.content if isinstance(message, ToolMessage) else message.text)
