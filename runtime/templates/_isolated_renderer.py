"""A template in a separate process: a bomb in it ends that process, not the program.

Templates come with model files from anywhere, and any of their operations may be large. ``'b' in s`` on 60 MB takes
seconds but no step; a compiler and ``repr`` use native recursion; ``'%(a)999999s' * 6000`` is one operation of 6 GB.
Counting steps (``_sandbox``) stops most of these, at the same place on every machine; the operating system stops the
rest.

A process is forked (``_fork_server``) at the first request to its template, and serves until the template is dropped.
Idle processes end after a while, and the least recently used ones if there would be too many. All start again on
demand. So a step costs only a request and its answer (``benchmarks/rendering.py``).
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

from cognition import CodecError, CogstepError, ConfigError
from cognition.steps.codec import from_data
from runtime.templates._compiled_template import stopped_error
from runtime.templates._conversation import UNDEFINED, Entry, Undefined
from runtime.templates._derivation import Derivation
from runtime.templates._fork_server import FORK_SERVER
from runtime.templates._process import RendererProcess
from runtime.templates.limits import Allowance, one_allowance

MOST_PROCESSES = 8
"""Processes alive at a time."""

IDLE_SECONDS = 60.0
"""Seconds before an idle process ends."""


class IsolatedTemplate:
    """A template in a separate process; see ``CompiledTemplate``. Thread-safe; it serves one thread at a time.

    Args:
        source: Jinja2.
        now: the clock, for templates that write the date.
        options: the other arguments of ``CompiledTemplate``.

    Raises:
        TemplateError: the source is not a valid template.
        TemplateStoppedError: a limit stopped it while it was compiled.
    """

    def __init__(self, source: str, *, now: Callable[[], datetime] = datetime.now, **options: str | int) -> None:
        self._opening = {"source": source, **options}
        self._now = now
        self._number = next(_NUMBERS)
        weakref.finalize(self, PROCESSES.dropped.put, self._number)
        self._ask({"ask": "open"})

    def apply(self, messages: list[Entry], tools: list[Entry] | Undefined | None, options: Mapping[str, Any]) -> str:
        question: dict[str, Any] = {"ask": "apply", "messages": messages, "options": options}
        if tools is not UNDEFINED:
            question["tools"] = tools
        text = self._ask(question)
        if not isinstance(text, str):
            raise stopped_error("it gave no text")
        return text

    def derive(self) -> Derivation:
        found = self._ask({"ask": "derive"})
        try:
            derived = from_data(found, Derivation)
        except (CodecError, ConfigError) as error:
            raise stopped_error(f"what was found out about it can't be read ({error})") from error
        assert isinstance(derived, Derivation)
        return derived

    def close(self) -> None:
        PROCESSES.drop(self._number)

    def _ask(self, question: dict[str, Any]) -> Any:
        question["now"] = self._now().isoformat()
        with one_allowance() as allowance, PROCESSES.of(self._number, self._opening, allowance) as process:
            return process.ask(question, allowance)


class RendererPool:
    """The live processes of all templates of this program, by their templates' numbers.

    Args:
        most: processes alive at a time. A thread that needs one more waits while all are busy.
        idle: seconds before an idle process ends.
    """

    def __init__(self, most: int = MOST_PROCESSES, idle: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle = idle
        self.forget()

    def forget(self) -> None:
        """Initialise, or release all processes in a forked copy of the program."""
        for process in list(getattr(self, "_living", {}).values()):
            process.release()
        self.dropped: SimpleQueue[int] = SimpleQueue()
        """Templates without references: a garbage collection may find them at any moment."""
        # A signal may come in the middle of anything too: this may be taken twice by one thread.
        self._changed = threading.Condition(threading.RLock())
        self._living: dict[int, RendererProcess] = {}
        """The most recently used process comes last."""
        self._asked: dict[int, object] = {}
        """Busy processes, and the owner of each request."""
        self._until: dict[int, float] = {}
        """When each idle process ends, on the monotonic clock."""
        self._sweeping = False

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in list(self._living.values()) if process.pid is not None]

    @contextmanager
    def of(self, number: int, opening: dict[str, Any], allowance: Allowance) -> Iterator[RendererProcess]:
        """Yield a template's process for one thread: the live process, or a new one that starts on its first request.

        The process is ended if its answer was not read completely, for instance after Ctrl-C.

        Raises:
            TemplateStoppedError: all were busy for too long.
        """
        owner, process, whole = object(), None, False
        try:
            process, others = self._take(number, opening, allowance, owner)
            for other in others:
                other.end()
            yield process
            whole = True
        except CogstepError:  # an answer like any other; a process that was stopped has been ended
            whole = True
            raise
        finally:
            if process is not None and not whole:
                process.end()
            self._give_back(number, owner)

    def drop(self, number: int) -> None:
        """End a template's process, after the template was dropped."""
        with self._changed:
            process = self._living.pop(number, None)
            self._until.pop(number, None)
            self._changed.notify_all()
        if process is not None:
            process.end()

    def _take(
        self, number: int, opening: dict[str, Any], allowance: Allowance, owner: object
    ) -> tuple[RendererProcess, list[RendererProcess]]:
        ended: list[RendererProcess] = []
        with self._changed, allowance.spend():
            deadline = time.monotonic() + allowance.wall
            while True:
                if number not in self._asked:
                    process = self._living.pop(number, None)
                    idle = [one for one in list(self._living) if one not in self._asked]
                    if process is None and len(self._living) >= self._most and idle:
                        ended += filter(None, [self._living.pop(idle[0], None)])
                    if process is not None or len(self._living) < self._most:
                        process = process or RendererProcess(opening)
                        self._living[number] = process
                        self._asked[number] = owner
                        return process, ended
                left = deadline - time.monotonic()
                if left <= 0:
                    raise stopped_error("too many templates are at work at once")
                self._changed.wait(left)

    def _give_back(self, number: int, owner: object) -> None:
        with self._changed:
            if self._asked.get(number) is not owner:  # it was never taken
                return
            del self._asked[number]
            process = self._living.get(number)
            if process is None or process.ended:
                self._living.pop(number, None)
                self._until.pop(number, None)
            else:
                self._until[number] = time.monotonic() + self._idle
                if not self._sweeping:
                    self._sweeping = True
                    threading.Thread(target=self._sweep, name="cogstep templates", daemon=True).start()
            self._changed.notify_all()

    def _sweep(self) -> None:
        """Run on a separate thread while any process lives: end idle processes and those of dropped templates."""
        changed, dropped, wait = self._changed, self.dropped, self._idle
        while True:
            with suppress(Empty):
                self.drop(dropped.get(timeout=wait))
            with changed:
                now = time.monotonic()
                until = {one: self._until.get(one, now) for one in list(self._living) if one not in self._asked}
                idle = [one for one, end in until.items() if end <= now]
                ended = [self._living.pop(one, None) for one in idle]
                for one in idle:
                    self._until.pop(one, None)
                self._sweeping = bool(self._living)
                wait = max(min((end - now for end in until.values() if end > now), default=self._idle), 0.0)
                changed.notify_all()
                over = not self._sweeping
            for process in ended:
                if process is not None:
                    process.end()
            if over:
                FORK_SERVER.rest()
                return


_NUMBERS = itertools.count(1)

PROCESSES = RendererPool()


def _forget_after_fork() -> None:
    FORK_SERVER.forget()
    PROCESSES.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(FORK_SERVER.close)
