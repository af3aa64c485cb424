"""Observers that also set the context in which the program's code runs, such as ``tracing.Tracing``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from cognition.steps.decisions import Effect
from interpreters.observing.events import Event

Context: TypeAlias = AbstractContextManager[object]


class Surrounding(ABC):
    """An observer whose contexts surround tools, workers, model calls and other observers of a session.

    The session calls ``begin`` itself, before the event's effects start. The event is delivered later, as to any
    observer. Events that another program passes on are delivered only.
    """

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Take a delivered event. May be slow."""

    @abstractmethod
    def begin(self, event: Event) -> Callable[[], Context]:
        """Take an event on the session's own thread, and return what makes the event's context. Must not block.

        A worker's event may come twice.
        """

    @abstractmethod
    def within(self, session: str, effect: Effect | None) -> Context:
        """Return the context for carrying out an effect of a session; None for its turn. Called from any thread."""
