"""The parameter that a running tool receives beside its arguments, the exceptions of tools, and ``LATER``."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from attrs import define, field

from cognition import NO_RULES, AccessRules
from cognition.base.display import shown_name
from cognition.values.content import LARGEST_IMAGES, Image, format_size
from interpreters.tools.log_lines import Hides, log_error
from interpreters.tools.undo_hook import UndoHook

Deps = TypeVar("Deps")
Result = TypeVar("Result")


class ToolError(Exception):
    """Raised by a tool. The model receives the message word for word.

    ``transient=True`` marks a temporary failure, such as a busy server. A tool with ``retries`` then runs again.
    """

    def __init__(self, *said: object, transient: bool = False) -> None:
        super().__init__(*said)
        self.transient = transient


class ToolRetry(ToolError):  # noqa: N818 - no error of the tool: it asks for something
    """Raised by a tool to make the model try again: ``raise ToolRetry("the city must be in Europe")``."""


class ToolCancelled(BaseException):
    """Raised by ``ToolContext.check`` to leave a tool whose call was cancelled.

    Not an ``Exception``, so that a tool's own ``except Exception`` does not catch it by accident.
    """


@define(eq=False, repr=False)
class ToolContext(Generic[Deps]):
    """One call, as its tool sees it. A parameter annotated with this class is not part of the tool's schema.

    >>> from interpreters import ToolContext, tool
    >>> @tool
    ... def greet(name: str, context: ToolContext[dict[str, str]]) -> str:
    ...     '''Greet somebody.'''
    ...     return f"{context.deps['greeting']}, {name}!"
    >>> greet.spec.parameters["required"]
    ['name']
    """

    deps: Deps
    """The ``deps`` of the ``Agent``: a database, a client, a user."""
    session: str = field(default="", kw_only=True)
    call_id: str = field(default="", kw_only=True)
    """The id of the call: the same for every attempt and after a crash. Together with ``session`` it is unique."""
    tool: str = field(default="", kw_only=True)
    _report: Callable[[str], object] | None = field(default=None, kw_only=True)
    _begins: Callable[[], bool] | None = field(default=None, kw_only=True)
    _awaits: Callable[[Awaitable[Any]], Any] | None = field(default=None, kw_only=True)
    """Runs a coroutine on the session's event loop and waits for it, from another thread."""
    access: AccessRules = field(default=NO_RULES, kw_only=True)
    """Policy's rules for the files that the tool reaches without being given their names, by a link or in a search. A
    tool that opens files compares them with the files' real paths (``PathAccess``).
    """
    keeper: UndoHook | None = field(default=None, kw_only=True)
    """Saves the undo data of file changes, for ``keeping``. None without a recording."""
    hides: Hides | None = field(default=None, kw_only=True)
    """Removes secrets from what is logged about the call."""
    effect_id: str = field(default="", kw_only=True)
    """The id of this attempt (``turn.step.index``)."""
    error: BaseException | None = field(default=None, init=False)
    """The exception that the tool raised, if it failed."""
    images: tuple[Image, ...] = field(default=(), init=False)
    """The images passed to ``show``."""
    _cancelled: bool = field(default=False, init=False)
    _when_cancelled: Callable[[], object] | None = field(default=None, init=False)

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. Long work should check this from time to time and end early."""
        return self._cancelled

    def check(self) -> None:
        """Leave the tool here if its call was cancelled.

        Raises:
            ToolCancelled: the call was cancelled. Do not catch it.
        """
        if self._cancelled:
            raise ToolCancelled

    def begin(self) -> None:
        """Mark the call as started. Called right before the tool's function.

        Raises:
            ToolCancelled: the call was cancelled and must not start.
        """
        if self._begins is not None and (self._cancelled or not self._begins()):
            self._cancelled = True
            raise ToolCancelled

    def when_cancelled(self, end: Callable[[], object] | None) -> None:
        """Register ``end``, which ``cancel`` calls once, on its own thread. None removes it. Exceptions of ``end`` are
        logged.

        Raises:
            ToolCancelled: the call is already cancelled.
        """
        self._when_cancelled = end
        if end is not None:
            self.check()  # after it is there, so that a cancellation from another thread meets it or is met

    def wait_for(self, work: Awaitable[Result]) -> Result:
        """Run a coroutine on the session's event loop, wait, and return its result. Not for an ``async def`` itself.

        Without a session, it runs in an event loop of its own. A cancellation of the call cancels it.

        Raises:
            ToolCancelled: the call was cancelled.
        """
        run: Callable[[Awaitable[Any]], Any] = self._awaits or asyncio.run  # type: ignore[assignment]  # of a coroutine
        try:
            made: Result = run(self._cancelled_with(work))
            return made
        except asyncio.CancelledError:
            self.check()
            raise

    async def _cancelled_with(self, work: Awaitable[Result]) -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end() -> None:
            with suppress(RuntimeError):  # the loop is closed: the tool came to its end at the same moment
                loop.call_soon_threadsafe(task.cancel)

        try:
            self.when_cancelled(end)
        except ToolCancelled:
            if isinstance(work, Coroutine):
                work.close()
            raise
        try:
            return await work
        finally:
            self.when_cancelled(None)

    def keeping(self, *paths: str, root: str | os.PathLike[str] = ".") -> AbstractContextManager[object]:
        """Return a context manager that saves these files on entry, so that ``undo`` can restore them.

        Without a recording it does nothing.

        Args:
            paths: the files that the block may change, create or delete, relative to ``root``.
            root: their directory.

        Raises:
            ToolError: on entry, if a file can't be saved or tools may not change it.
        """
        return nullcontext() if self.keeper is None else self.keeper.keep_files(root, paths, self.call_id)

    def show(self, image: Image) -> None:
        """Send the model an image with the result. The result's text should describe the image.

        Models that do not accept images of this type do not receive it.

        Raises:
            ToolError: the images of this call are too large together.
        """
        images = (*self.images, image)
        if sum([one.size for one in images]) > LARGEST_IMAGES:
            raise ToolError(f"the images of one result may have {format_size(LARGEST_IMAGES)} together")
        self.images = images

    def progress(self, text: str) -> None:
        """Report the progress of the work to observers. The model never sees it. Thread-safe."""
        if self._report is not None and not self._cancelled:
            self._report(text)

    def cancel(self) -> None:
        """Cancel the call. For the interpreter, and for tests of tools."""
        self._cancelled = True
        end, self._when_cancelled = self._when_cancelled, None
        if end is None:
            return
        try:
            end()
        except Exception as error:  # it is the tool's, and whoever cancels has other tools to tell, and a turn to end
            said = f"what {shown_name(self.tool)} wanted called at its cancellation has failed"
            log_error(logging.ERROR, said, error, self.hides)


class Later(Enum):
    """The type of ``LATER``, its only value."""

    LATER = "LATER"

    def __repr__(self) -> str:
        return "LATER"


LATER: Final = Later.LATER
"""A program returns it to answer later: see ``interpreters.loop.program.pending``.

Return this from ``approve``, ``ask``, ``review`` or your own performer of tool calls to hand in the answer later
with ``answer``. The turn waits until then, across ``close()``, a crash and a restart. Only ``cancel`` ends the wait.
"""
