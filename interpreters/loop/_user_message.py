"""A user's message before its turn begins: additions of the program, and pictures that no model accepts.

No effect has begun and the message is not on file yet. So a mistake raises an error in the caller, and the session
continues with the next message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from attrs import evolve

from cognition import AgentConfig, AgentState, Candidate, Image, Input, Message, UserMessage, UserSpoke
from cognition.context.window import before_window
from cognition.values.candidates import CONVERSATION
from cognition.values.content import images_of
from cognition.values.routing import OWN, order_of
from interpreters.loop.driver import Driver
from interpreters.loop.program.context_sources import ContextSourceError, Source
from interpreters.loop.program.program import Program
from interpreters.loop.program.system_prompt import UNSAID
from runtime.errors import MediaError
from runtime.protocol.model import ModelInfo


class MessagePreparer:
    """Prepares the messages of a session."""

    __slots__ = ("_driver", "_pictured", "_program")

    def __init__(self, program: Program, driver: Driver) -> None:
        self._program = program
        self._driver = driver
        self._pictured: bool | None = None
        """Whether the conversation contains a picture; None if not checked yet."""

    def check(self, event: Input | None) -> None:
        """Check that a model accepts the pictures of a new message and of the conversation.

        Raises:
            MediaError: no available model accepts the pictures in the message or in the conversation before it.
        """
        if not isinstance(event, UserSpoke):
            return
        if self._pictured is None:
            self._pictured = any(map(_images, self._driver.state.history))
        images = images_of(event.parts) if event.parts else ()
        if not images and not self._pictured:  # the usual case
            return
        state = self._driver.state
        shown = (*before_window(state.history, state.window), *state.history[state.window.first :])
        kept = tuple(chain.from_iterable(map(_images, shown)))
        found = [self._problem(info, images, kept) for info in self._models()]
        if "" not in found:
            raise MediaError(found[0])
        self._pictured = True

    def _models(self) -> Iterator[ModelInfo]:
        """Yield the models that may answer, in order of preference. If one refuses a picture, another may accept it."""
        config, state = getattr(self._driver.engine, "config", None), self._driver.state
        names: tuple[str, ...] = (OWN,)
        if isinstance(config, AgentConfig) and isinstance(state, AgentState):
            names = order_of(state.model, config.routes, config.fallback, "plan" if state.mode == "plan" else "answer")
        there = [name for name in names if name in (OWN, *self._program.models)]  # a performer may stand for the rest
        return (self._program.runtime(name).describe() for name in there or [OWN])

    def _problem(self, info: ModelInfo, images: tuple[Image, ...], kept: tuple[Image, ...]) -> str:
        """Return why a model can't be shown the pictures of a message or of its conversation; empty if it can."""
        anew = "begin anew with reset(), or fork the session from an earlier turn"
        for those, where, how in (
            (images, "this message has", "describe the picture in words"),
            (kept, "the conversation has", anew),
        ):
            for image in those:
                if image.media_type not in info.media:
                    takes = f"takes {', '.join(info.media)} beside text" if info.media else "takes text alone"
                    return (
                        f"the model {info.name!r} {takes}, and {where} {image}; use a model that takes such images, "
                        f"or {how}"
                    )
        return ""

    def is_unprepared(self, event: Input) -> bool:
        """Whether the program adds anything to an input, or the input brings a system prompt."""
        program = self._program
        return isinstance(event, UserSpoke) and (
            program.system is not None or event.system is not None or bool(program.context)
        )

    def needs_prompt(self, event: Input | None) -> bool:
        """Whether the program's function has to make the system prompt for this input."""
        return self._program.system is not None and isinstance(event, UserSpoke) and event.system is None

    def sources(self, event: Input) -> tuple[Source, ...]:
        """Return the sources of candidates for an input; empty if the input contains candidates."""
        return self._program.context if isinstance(event, UserSpoke) and not event.context else ()

    def with_context(self, event: Any, found: Iterable[tuple[Candidate, ...]]) -> Input:
        told: UserSpoke = evolve(event, context=tuple(chain.from_iterable(found)))
        config = getattr(self._driver.engine, "config", None)
        if isinstance(config, AgentConfig):
            names = [section.name for section in config.sections if section.name != CONVERSATION]
            for one in told.context:
                if one.section not in names:
                    what = "the conversation itself" if one.section == CONVERSATION else "no section of this agent"
                    raise ContextSourceError(
                        f"a candidate is for {one.section!r}, which is {what}; its sections are {', '.join(names)}; "
                        f"{UNSAID}"
                    )
        return told

    def with_own_prompt(self, event: Input) -> Input:
        """Return an input that needs no new prompt. Its own prompt is treated as in ``with_prompt``."""
        brought = event.system if isinstance(event, UserSpoke) else None
        return event if brought is None else self.with_prompt(event, brought)

    def with_prompt(self, event: Any, text: str) -> Input:
        """Return the message with this system prompt, or without a prompt if the text is unchanged."""
        event, driver = evolve(event, system=None), self._driver
        known = getattr(driver.state, "system", None)
        if known is None:
            known = getattr(getattr(driver.engine, "config", None), "system", None)
        changed: Input = event if text == driver.reveal(known) else evolve(event, system=text)
        return changed


def _images(message: Message) -> tuple[Image, ...]:
    return images_of(message.parts) if isinstance(message, UserMessage) and message.parts else ()
