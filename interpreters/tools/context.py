"""``ToolContext``, the parameter that a running tool receives beside its arguments, and the exceptions of tools."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from cognition.base.display import shown_name
from cognition.values.content import LARGEST_IMAGES, Image, format_size
from interpreters.tools.undo_hook import UndoHook

LOG = logging.getLogger("cogstep")
Deps = TypeVar("Deps")


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

    __slots__ = (
        "_begins",
        "_cancelled",
        "_report",
        "_when_cancelled",
        "call_id",
        "deps",
        "effect_id",
        "error",
        "images",
        "keeper",
        "session",
        "tool",
    )

    def __init__(
        self,
        deps: Deps,
        *,
        session: str = "",
        call_id: str = "",
        tool: str = "",
        report: Callable[[str], object] | None = None,
        begins: Callable[[], bool] | None = None,
        keeper: UndoHook | None = None,
        effect_id: str = "",
    ) -> None:
        self.deps: Deps = deps
        """The ``deps`` of the ``Agent``: a database, a client, a user."""
        self.session: str = session
        self.call_id: str = call_id
        """The id of the call: the same for every attempt and after a crash. Together with ``session`` it is unique."""
        self.effect_id: str = effect_id
        """The id of this attempt (``turn.step.index``)."""
        self.tool: str = tool
        self.keeper: UndoHook | None = keeper
        """Saves the undo data of file changes, for ``keeping``. None without a recording."""
        self.error: BaseException | None = None
        """The exception that the tool raised, if it failed."""
        self.images: tuple[Image, ...] = ()
        """The images passed to ``show``."""
        self._report = report
        self._begins = begins
        self._cancelled = False
        self._when_cancelled: Callable[[], object] | None = None

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

    def keeping(self, *paths: str, root: str | os.PathLike[str] = ".") -> AbstractContextManager[object]:
        """Return a context manager that saves these files on entry, so that ``undo`` can restore them.

        Without a recording it does nothing.

        Args:
            paths: the files that the block may change, create or delete, relative to ``root``.
            root: their directory.

        Raises:
            ToolError: on entry, if a file can't be saved or tools may not change it.
        """
        if self.keeper is None:
            return nullcontext()
        return self.keeper.keep_files(root, paths, self.call_id)

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
        except Exception:  # it is the tool's, and whoever cancels has other tools to tell, and a turn to end
            LOG.exception("what %s wanted called at its cancellation has failed", shown_name(self.tool))
