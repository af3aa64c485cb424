"""Answers as values: from the JSON text of an answer to the type that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import frozen

from cognition import AgentConfig, CogstepError, ModelReplied
from cognition.strict_json import DECODER
from cognition.text_protocol import read_text
from interpreters.agents.results import RunResult
from interpreters.tools.refusals import problems_of
from interpreters.tools.schema import DEEPEST, Schema, is_within, problems
from interpreters.tools.shapes import Shapes
from runtime.constrained.schema import read_checked

if TYPE_CHECKING:
    from interpreters.tools.full_check import FullCheck

T = TypeVar("T")


class AnswerError(CogstepError):
    """An answer is not of the type that was asked for: it was cut short, or the model is not held to it.

    Attributes:
        text: the answer as it came.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


@frozen
class StructuredResult(RunResult, Generic[T]):
    """A turn whose answer was asked for as a value: ``agent.run("...", returns=City)``."""

    returns: Any = None
    """The type."""

    @property
    def value(self) -> T:
        """The answer. Made anew each time.

        Raises:
            TurnFailedError: there is no answer.
            AnswerError: it is no such value; says what is wrong with it.
        """
        self.raise_for_failure()
        value: T = answer_type(self.returns).read(self.text)
        return value

    @property
    def ok(self) -> bool:
        """Whether the model answered with such a value and no limit was hit."""
        return super().ok and not _wrong(self.returns, self.text)


class AnswerType:
    """A type that answers are asked for in: its schema, and how a value is read out of an answer's text.

    Raises:
        ConfigError: JSON has no form for the type.
    """

    def __init__(self, kind: Any) -> None:
        shapes = Shapes()
        self._shape = shapes.of(kind, "returns")
        self.schema: Schema = shapes.root(self._shape)
        read_checked(self.schema, f"the type {getattr(kind, '__name__', kind)}")
        self._full: FullCheck | None = None
        if not is_within(self.schema):
            from interpreters.tools.full_check import FullCheck

            self._full = FullCheck(self.schema, "answers")

    def read(self, text: str) -> Any:
        """The value that an answer is the JSON of.

        Raises:
            AnswerError: it is none; says everything that is wrong with it.
        """
        try:
            data = DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"the answer is no JSON ({error}): {text[:200]!r}", text) from error
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


_READ: dict[int, tuple[Any, AnswerType]] = {}
MOST_READ = 64
"""The number of types that are kept as they were read: some take milliseconds."""


def answer_type(kind: Any) -> AnswerType:
    """How answers of a type are read; kept for the next one. Raises as ``AnswerType``."""
    known = _READ.get(id(kind))
    if known is not None and known[0] is kind:
        return known[1]
    made = AnswerType(kind)
    if len(_READ) >= MOST_READ:
        _READ.clear()
    _READ[id(kind)] = kind, made
    return made


def _wrong(kind: Any, text: str) -> str:
    """What is wrong with an answer; empty for nothing."""
    try:
        answer_type(kind).read(text)
    except AnswerError as error:
        return str(error)
    return ""


def objection_to(kind: Any, config: AgentConfig) -> Callable[[ModelReplied], str]:
    """What looks over each reply of a turn whose answer is of a type, and says what is wrong with it as an answer."""
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


def answer_schema(kind: Any) -> Schema:
    """The schema that answers of this type follow; raises as ``AnswerType``."""
    return answer_type(kind).schema
