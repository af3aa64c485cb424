"""Errors of types and validators for data that fits the schema, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class RefusedError(ValueError):
    """A type or validator refuses a value.

    Attributes:
        problems: pairs of a place (``.points[0]``, or empty) and a description of the problem.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems: tuple[tuple[str, str], ...] = tuple(problems)
        super().__init__("; ".join(f"{place} {text}".strip() for place, text in self.problems))


def gather(parts: Iterable[tuple[str, Callable[[Any], Any], Any]]) -> list[Any]:
    """Make one value per part: a triple of place, constructor and data.

    Raises:
        RefusedError: some parts were refused; lists all of them.
    """
    values: list[Any] = []
    wrong: list[tuple[str, str]] = []
    for place, make, data in parts:
        try:
            values.append(make(data))
        except RecursionError:
            raise
        except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
            wrong += [(place + inner, text) for inner, text in problems_of(error)]
    if wrong:
        raise RefusedError(wrong)
    return values


def problems_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the problems of an exception: pairs of a place within the value and a text."""
    from interpreters.tools.failures import describe

    if isinstance(error, RefusedError):
        return list(error.problems)
    if isinstance(error, BaseExceptionGroup):
        return [one for inner in error.exceptions for one in problems_of(inner)]
    return [("", describe(error))]
