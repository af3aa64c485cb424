"""Answers as values: from the JSON text of an answer to the type that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import frozen

from cognition import AgentConfig, CogstepError, ModelReplied
from cognition.strict_json import DECODER
from cognition.text_protocol import read_text
from interpreters.agents.results import RunResult
from interpreters.tools.schema import Schema, problems, schema_of
from interpreters.tools.tool import reasons, structured
from runtime.constrained.schema import read_checked

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
        value: T = read_value(self.returns, self.text)
        return value

    @property
    def ok(self) -> bool:
        """Whether the model answered with such a value and no limit was hit."""
        return super().ok and not _wrong(self.returns, self.text)


def read_value(kind: Any, text: str) -> Any:
    """The value of a type that an answer is the JSON of.

    Raises:
        AnswerError: it is none; says everything that is wrong with it.
    """
    try:
        data = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer is no JSON ({error}): {text[:200]!r}", text) from error
    wrong = list(problems(data, schema_of(kind, "returns"), "the answer"))
    if wrong:
        raise AnswerError("; ".join(wrong), text)
    try:
        return structured(data, kind)
    except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
        raise AnswerError("; ".join(f"the answer {reason}" for reason in reasons(error)), text) from error


def _wrong(kind: Any, text: str) -> str:
    """What is wrong with an answer; empty for nothing."""
    try:
        read_value(kind, text)
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
    """The schema that answers of this type follow.

    Raises:
        ConfigError: JSON has no form for the type.
    """
    schema = schema_of(kind, "returns")
    read_checked(schema, f"the type {getattr(kind, '__name__', kind)}")
    return schema
