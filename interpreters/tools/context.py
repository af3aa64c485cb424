"""What a running tool is given beside its arguments."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from cognition.content import LARGEST_IMAGES, Image, said_size
from cognition.shown import shown_name
from interpreters.tools.keeping import Keeper

LOG = logging.getLogger("cogstep")
Deps = TypeVar("Deps")


class ToolError(Exception):
    """Raised by a tool: its message goes to the model word for word.

    ``transient=True`` says that it may pass, such as a busy server: a tool with ``retries`` is then run again.
    """

    def __init__(self, *said: object, transient: bool = False) -> None:
        super().__init__(*said)
        self.transient = transient


class ToolRetry(ToolError):  # noqa: N818 - no error of the tool: it asks for something
    """Raised by a tool to have the model try again: ``raise ToolRetry("the city must be in Europe")``."""


class ToolCancelled(BaseException):
    """Raised by ``ToolContext.check`` to leave a tool whose call was cancelled.

    It is no ``Exception``, so that a tool which catches those around its work does not catch this one by accident.
    """


class ToolContext(Generic[Deps]):
    """One call, seen from inside its tool. A parameter annotated with this class is left out of the tool's schema.

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
        keeper: Keeper | None = None,
        effect_id: str = "",
    ) -> None:
        self.deps = deps
        """What the embedding program gave to its ``Agent``: a database, a client, a user."""
        self.session = session
        self.call_id = call_id
        """Of the call, the same in each attempt at it, and after a crash: with ``session`` it names the call for
        good.
        """
        self.effect_id = effect_id
        """Of this attempt (``turn.step.index``)."""
        self.tool = tool
        """The tool's name."""
        self.keeper = keeper
        """Keeps what undoes a change of files, for ``keeping``; None where nothing is kept, as without a recording."""
        self.error: BaseException | None = None
        """What the tool raised, once it has failed."""
        self.images: tuple[Image, ...] = ()
        """What was given to ``show``."""
        self._report = report
        self._begins = begins
        self._cancelled = False
        self._when_cancelled: Callable[[], object] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. Long work looks at it now and then and ends early."""
        return self._cancelled

    def check(self) -> None:
        """Leave the tool here if its call was cancelled.

        Raises:
            ToolCancelled: it was; let it pass.
        """
        if self._cancelled:
            raise ToolCancelled

    def begin(self) -> None:
        """Called right before the tool's function: from here on the call has begun.

        Raises:
            ToolCancelled: nobody waits for it any more, and it must not begin.
        """
        if self._begins is not None and (self._cancelled or not self._begins()):
            self._cancelled = True
            raise ToolCancelled

    def when_cancelled(self, end: Callable[[], object] | None) -> None:
        """Have ``cancel`` call ``end`` too, once, on whatever thread it is called itself; with None nothing more. What
        ``end`` raises is logged.

        Raises:
            ToolCancelled: the call is cancelled already.
        """
        self._when_cancelled = end
        if end is not None:
            self.check()  # after it is there, so that a cancellation from another thread meets it or is met

    def keeping(self, *paths: str, root: str | os.PathLike[str] = ".") -> AbstractContextManager[object]:
        """A block that changes files, with what they hold kept before it, so that ``undo`` can put them back.

        Without a recording nothing is kept.

        Args:
            paths: of the files that the block may change, make or delete, relative to ``root``.
            root: the directory that they lie in.

        Raises:
            ToolError: on the way into the block: a file can't be kept, or is none that tools may change.
        """
        if self.keeper is None:
            return nullcontext()
        return self.keeper.keeping_files(root, paths, self.call_id)

    def show(self, image: Image) -> None:
        """Have the model shown a picture beside the result, whose text should say what it is of.

        A model that takes no pictures of its kind is not shown it.

        Raises:
            ToolError: the pictures of this call are too large together.
        """
        images = (*self.images, image)
        if sum([one.size for one in images]) > LARGEST_IMAGES:
            raise ToolError(f"the images of one result may have {said_size(LARGEST_IMAGES)} together")
        self.images = images

    def progress(self, text: str) -> None:
        """Tell observers how far the work is. The model never sees it. May be called from any thread."""
        if self._report is not None and not self._cancelled:
            self._report(text)

    def cancel(self) -> None:
        """Called by the interpreter, and by tests of tools."""
        self._cancelled = True
        end, self._when_cancelled = self._when_cancelled, None
        if end is None:
            return
        try:
            end()
        except Exception:  # it is the tool's, and whoever cancels has other tools to tell, and a turn to end
            LOG.exception("what %s wanted called at its cancellation has failed", shown_name(self.tool))
