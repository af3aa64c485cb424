"""Answers as values: from the JSON text of an answer to the type that was asked for."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from attrs import frozen

from cognition import CogstepError
from cognition.strict_json import NUMBERS
from interpreters.agents.results import RunResult
from interpreters.tools.schema import Schema, problems, schema_of
from interpreters.tools.tool import reasons, structured
from runtime.constrained.schema import read_schema

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
        text = self.text
        try:
            data = NUMBERS.decode(text)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"the answer is no JSON ({error}): {text[:200]!r}", text) from error
        wrong = list(problems(data, schema_of(self.returns, "returns"), "the answer"))
        if wrong:
            raise AnswerError("; ".join(wrong), text)
        try:
            value: T = structured(data, self.returns)
        except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
            raise AnswerError("; ".join(f"the answer {reason}" for reason in reasons(error)), text) from error
        return value


def answer_schema(kind: Any) -> Schema:
    """The schema that answers of this type follow.

    Raises:
        ConfigError: JSON has no form for the type, or a model can't be held to it.
    """
    schema = schema_of(kind, "returns")
    read_schema(schema, f"the type {getattr(kind, '__name__', kind)}")
    return schema
