"""A user's message before its turn begins: additions of the program, and pictures that no model accepts.

No effect has begun and the message is not on file yet. So a mistake raises an error in the caller, and the session
continues with the next message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeGuard

from attrs import evolve

from cognition import AgentConfig, AgentState, Image, Input, Message, UserMessage, UserSpoke
from cognition.context.window import before_window
from cognition.values.candidates import CONVERSATION
from cognition.values.content import images_of
from cognition.values.routing import OWN, order_of
from interpreters.loop.driver import Driver
from interpreters.loop.program.message_sources import UNSAID, ContextSourceError, Source
from interpreters.loop.program.program import Program
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

    def is_unprepared(self, event: Input) -> TypeGuard[UserSpoke]:
        """Whether the program adds anything to an input, or the input brings a system prompt."""
        program = self._program
        return isinstance(event, UserSpoke) and (
            program.system is not None or event.system is not None or bool(program.context)
        )

    def sources(self, event: UserSpoke) -> tuple[Source, ...]:
        """Return the functions to call for a message: for its system prompt, and then for its candidates.

        What the message contains is not asked for again.
        """
        made, context = self._program.system, () if event.context else self._program.context
        return context if made is None or event.system is not None else (made, *context)

    def prepare(self, event: UserSpoke, found: Sequence[Any]) -> UserSpoke:
        """Return the message with the results of its ``sources``.

        A system prompt that is unchanged is left out.

        Raises:
            ContextSourceError: a candidate is for no section of this agent.
        """
        config, prompt, state = getattr(self._driver.engine, "config", None), event.system, self._driver.state
        if prompt is None and self._program.system is not None:
            prompt, *found = found
        if prompt is not None:
            known = getattr(state, "system", None)
            known = getattr(config, "system", None) if known is None else known
            event = evolve(event, system=None if prompt == self._driver.reveal(known) else prompt)
        if not found:
            return event
        event = evolve(event, context=tuple(chain.from_iterable(found)))
        if isinstance(config, AgentConfig):
            names = [section.name for section in config.sections if section.name != CONVERSATION]
            for one in event.context:
                if one.section not in names:
                    what = "the conversation itself" if one.section == CONVERSATION else "no section of this agent"
                    raise ContextSourceError(
                        f"a candidate is for {one.section!r}, which is {what}; its sections are {', '.join(names)}; "
                        f"{UNSAID}"
                    )
        return event


def _images(message: Message) -> tuple[Image, ...]:
    return images_of(message.parts) if isinstance(message, UserMessage) and message.parts else ()
