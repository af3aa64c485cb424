"""Structured answers: the JSON text of an answer read into the requested type, also while the model writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from attrs import frozen

from cognition import AgentConfig, CogstepError, ModelReplied
from cognition.base.strict_json import DECODER, LENIENT
from cognition.parsing.text_protocol import read_text
from interpreters.agents.results import RunResult
from interpreters.observing.events import Event, ReasoningDelta, TextDelta, ToolProgress, WarningRaised
from interpreters.tools.failures import problems_of
from interpreters.tools.schema import DEEPEST, Schema, is_within, problems
from interpreters.tools.type_shapes import Shapes
from runtime.constrained.schema import read_checked

if TYPE_CHECKING:
    from interpreters.tools.schema_check import FullCheck

T = TypeVar("T")


class AnswerError(CogstepError):
    """An answer does not fit the requested type: it was cut short, or sampling was not constrained to the type.

    Attributes:
        text: the answer as the model wrote it.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


@frozen
class StructuredResult(RunResult, Generic[T]):
    """The result of a turn with a requested type: ``agent.run("...", returns=City)``."""

    returns: Any = None

    @property
    def value(self) -> T:
        """The answer as a new object at each access.

        Raises:
            TurnFailedError: there is no answer.
            AnswerError: the answer does not fit the type; the message lists the reasons.
        """
        super().raise_for_failure()
        value: T = answer_type(self.returns).read(self.text)
        return value

    def raise_for_failure(self) -> Self:
        """Return this result if it contains an answer that fits the type.

        Raises:
            TurnFailedError, PendingError: as for a result without a type.
            AnswerError: the answer does not fit the type; the message lists the reasons.
        """
        super().raise_for_failure()
        answer_type(self.returns).read(self.text)
        return self

    @property
    def ok(self) -> bool:
        """Whether the answer fits the type and no limit was hit."""
        return super().ok and not _wrong(self.returns, self.text)


FENCE = re.compile(
    r"\s*(?P<mark>`{3,}|~{3,})(?:json)?[ \t]*\r?\n(?P<inside>.*?)(?:\r?\n\s*(?P=mark)\s*)?\Z", re.DOTALL | re.I
)
"""A fence of Markdown around a whole answer. Its end may not be there yet."""


def _unfenced(text: str) -> str:
    """Return an answer without a fence of Markdown around all of it, in which models put JSON."""
    found = FENCE.match(text)
    return text if found is None else found["inside"]


class AnswerType:
    """A type for structured answers: its schema, and the reader from an answer's text to a value.

    Raises:
        ConfigError: the type has no JSON form.
    """

    def __init__(self, kind: Any) -> None:
        shapes = Shapes()
        self._shape = shapes.of(kind, "returns")
        self._name = kind.__name__ if type(kind) is type else str(kind).replace("typing.", "")
        self.schema: Schema = shapes.root(self._shape)
        read_checked(self.schema, f"the type {getattr(kind, '__name__', kind)}")
        self._full: FullCheck | None = None
        if not is_within(self.schema):
            from interpreters.tools.schema_check import FullCheck

            self._full = FullCheck(self.schema, "answers")

    def read(self, text: str) -> Any:
        """Return the value of an answer's JSON text.

        Raises:
            AnswerError: the text does not fit the type; the message lists every problem.
        """
        try:
            data = DECODER.decode(_unfenced(text))
        except (ValueError, RecursionError) as error:
            why = _describe(error, text)
            raise AnswerError(
                f"the answer is no JSON, which {self._name} needs ({why}): {text[:200]!r}", text
            ) from error
        try:
            wrong = list(problems(data, self.schema, "the answer"))
            if not wrong and self._full is not None:
                wrong = [f"the answer: {problem}" for problem in self._full.problems(data)]
            if wrong:
                raise AnswerError("; ".join(wrong), text)
            return self._shape.value(data)
        except AnswerError:
            raise
        except RecursionError as error:
            raise AnswerError(f"the answer can't be read: {DEEPEST}", text) from error
        except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
            found = (f"the answer{place} is refused: {why}" for place, why in problems_of(error))
            raise AnswerError("; ".join(found), text) from error


def _describe(error: ValueError | RecursionError, text: str) -> str:
    """Return in words why a text is not JSON."""
    if not text.strip():
        return "it is empty"
    if isinstance(error, RecursionError):
        return DEEPEST
    if not isinstance(error, JSONDecodeError):
        return str(error)
    if not error.doc[: error.pos].strip():
        return "it is plain text"
    return f"line {error.lineno}, column {error.colno}: {error.msg}"


_READ: dict[int, tuple[Any, AnswerType]] = {}
MOST_READ = 64
"""Number of cached types; reading a type can take milliseconds."""


def answer_type(kind: Any) -> AnswerType:
    """Return the cached ``AnswerType`` of a type. Raises as ``AnswerType``."""
    known = _READ.get(id(kind))
    if known is not None and known[0] is kind:
        return known[1]
    made = AnswerType(kind)
    if len(_READ) >= MOST_READ:
        _READ.clear()
    _READ[id(kind)] = kind, made
    return made


def _wrong(kind: Any, text: str) -> str:
    try:
        answer_type(kind).read(text)
    except AnswerError as error:
        return str(error)
    return ""


def objection_to(kind: Any, config: AgentConfig) -> Callable[[ModelReplied], str]:
    """Return a check for the replies of a turn with a requested type.

    The check returns the problems of a reply as an answer. It returns an empty text for a valid answer, and for a reply
    that is not an answer yet.
    """
    tools = {tool.name: tool for tool in config.offered}

    def objection(reply: ModelReplied) -> str:
        if reply.calls or reply.malformed or reply.finish_reason == "length":
            return ""  # it is no answer yet, or was cut: what is wrong with it is known
        text = reply.text
        if config.protocol != "native":
            reading = read_text(config.protocol, text, tools, reply.finish_reason)
            if reading.calls or reading.malformed:
                return ""
            text = reading.answer
        return _wrong(kind, text) if text.strip() else ""

    return objection


# ------------------------------------------------------------------------------------------------- while it is written

NOTHING: Any = object()
"""No part of a value has arrived yet."""

TOKEN = re.compile(
    r"""[ \t\r\n]*(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")|([{}\[\],:])|([^\s{}\[\],:"]+)(?=[\s,}\]])"""
    r"""|("[^"\\]*+(?:\\.[^"\\]*+)*+)\\?\Z)""",
    re.S,
)
"""A complete string, a punctuation sign, a complete number or word, or a string cut by the end of the text."""

HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u?[0-9a-fA-F]{0,3})?\Z")


def partial_json(text: str) -> Any:
    """Return the value of the JSON text so far, or ``NOTHING`` if no value has begun or the text is not JSON.

    A string is cut at the end of the text. A number, word or key that may continue is omitted.
    """
    open_: list[str] = []
    kept, place, key = 0, 0, False
    while (found := TOKEN.match(text, place)) is not None:
        string, sign, word, cut = found.groups()
        place = found.end()
        if cut is not None:
            if not (open_ and open_[-1] == "}" and key):
                return _read(text[: found.start(4)] + HALF_ESCAPE.sub("", cut) + '"' + "".join(reversed(open_)))
            break
        if sign in ("{", "["):
            open_.append("}" if sign == "{" else "]")
            key = sign == "{"
        elif sign in ("}", "]"):
            if not open_ or open_.pop() != sign:
                return NOTHING
            key = False
        elif sign == ",":
            key = bool(open_) and open_[-1] == "}"
            continue
        elif sign == ":":
            key = False
            continue
        elif key and (string or word):
            continue  # a key, whose value is not there yet
        kept = place
    return _read(text[:kept] + "".join(reversed(open_))) if kept else NOTHING  # what opens or closes is always kept


def _read(text: str) -> Any:
    try:
        return LENIENT.decode(text)
    except (ValueError, RecursionError):
        return NOTHING


SHORT = 2048
"""Up to this number of characters, an answer is parsed after each piece."""
SHARE = 32
"""A longer answer is parsed again when it has grown by 1/32. So the total work is linear in its length, not quadratic.
"""

BETWEEN = (ReasoningDelta, ToolProgress, WarningRaised)
"""Events that may arrive between two pieces of a text."""


class PartialAnswer:
    """Follows the events of a turn and yields the partial values of its answer."""

    def __init__(self) -> None:
        self._session: str | None = None
        self._reply: tuple[int, int] | None = None
        self._pieces: list[str] = []
        self._length, self._read = 0, 0
        """Characters of the reply, and of its part parsed so far."""
        self._told: Any = NOTHING

    def take(self, event: Event) -> Iterator[Any]:
        """Take the next event and yield the partial value if it has changed. At the reply's end it is the complete
        value.
        """
        if self._session is None:
            self._session = event.session  # the first event is never a worker's
        if event.session != self._session or isinstance(event.value, BETWEEN):
            return
        if not isinstance(event.value, TextDelta):
            yield from self._read_growth()
            return
        if self._reply != (event.step, event.attempt):  # another reply: a call came before it, or it is a correction
            self._reply = event.step, event.attempt
            self._pieces, self._length, self._read, self._told = [], 0, 0, NOTHING
        self._pieces.append(event.value.text)
        self._length += len(event.value.text)
        if self._length <= SHORT or self._length - self._read >= self._length / SHARE:
            yield from self._read_growth()

    def _read_growth(self) -> Iterator[Any]:
        if self._read == self._length:
            return
        text = "".join(self._pieces)
        self._pieces, self._read = [text], self._length
        value = partial_json(_unfenced(text))
        if value is not NOTHING and value != self._told:
            self._told = value
            yield value
