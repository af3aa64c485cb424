"""What types and their validators have against data that their schema has let pass, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class RefusedError(ValueError):
    """A value is refused by a type or a validator.

    Attributes:
        problems: each a place (``.points[0]``, or empty) and what is wrong there.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{place} {text}".strip() for place, text in self.problems))


def gathered(parts: Iterable[tuple[str, Callable[[Any], Any], Any]]) -> list[Any]:
    """The values that are made of parts: each a place, what makes a value, and the data.

    Raises:
        RefusedError: some were refused; names every one.
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
    """The places within a value, and what an exception says is wrong there."""
    from interpreters.tools.failures import describe

    if isinstance(error, RefusedError):
        return list(error.problems)
    if isinstance(error, BaseExceptionGroup):
        return [one for inner in error.exceptions for one in problems_of(inner)]
    return [("", describe(error))]
