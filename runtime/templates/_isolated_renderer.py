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
import signal
import socket
import subprocess
import sys
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
from runtime.children.ending import signal_name
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._compiled_template import TOO_MUCH_MEMORY, stopped_error
from runtime.templates._conversation import UNDEFINED, Entry, Undefined
from runtime.templates._derivation import Derivation
from runtime.templates._fork_server import FORK_SERVER, HEAD, LONGEST, body_of, data_of
from runtime.templates.limits import (
    KEPT_MEMORY,
    MEMORY,
    OUT_OF_MEMORY,
    OUTPUT_PER_BYTE,
    OWN_TEXT,
    PROCESSOR_SECONDS,
    SECONDS,
    Allowance,
    one_allowance,
)

MOST_PROCESSES = 8
"""Processes alive at a time."""

IDLE_SECONDS = 60.0
"""Seconds before an idle process ends."""

WATCHED = sys.platform != "linux"
"""If the system does not enforce ``RLIMIT_AS``, this side checks the process's memory while it waits."""

LOOK_SECONDS = 0.05

LONGEST_ESCAPE, ROOM = 6, 1_000_000
r"""The most bytes of a character in JSON (``\u0001``), and of an answer apart from its text: derived facts or the
reason of a refusal.
"""


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
            derived: Derivation = from_data(found, Derivation)
        except (CodecError, ConfigError) as error:
            raise stopped_error(f"what was found out about it can't be read ({error})") from error
        return derived

    def close(self) -> None:
        PROCESSES.drop(self._number)

    def _ask(self, question: dict[str, Any]) -> Any:
        question["now"] = self._now().isoformat()
        with one_allowance() as allowance, PROCESSES.of(self._number, self._opening, allowance) as process:
            return process.ask(question, allowance)


class RendererProcess:
    """A process that renders one template, and the connection to it. Not thread-safe.

    Args:
        opening: the first message to it; see ``renderer_process``.
    """

    def __init__(self, opening: dict[str, Any]) -> None:
        self._opening = opening
        self._connection: socket.socket | None = None
        self.pid: int | None = None
        """The process id; None before it is started."""
        self.ended = False
        self.owner: object = None
        """Whoever has it for a request; None while it is idle."""
        self.until = 0.0
        """When it ends if it stays idle, on the monotonic clock."""

    def ask(self, question: dict[str, Any], allowance: Allowance) -> Any:
        """Return the answer to a question. The first question starts the process and sends it the template.

        Raises:
            TemplateError: the template refuses.
            TemplateStoppedError: a limit stopped it. The process has then ended.
        """
        if self.pid is None:
            self.pid, self._connection = FORK_SERVER.fork()
            self._ask_once({"ask": "open", "now": question["now"], **self._opening}, allowance)
        return None if question["ask"] == "open" else self._ask_once(question, allowance)

    def end(self) -> int | None:
        """Kill it if it still runs, and return its exit status; None if unknown."""
        self.release()
        return None if self.pid is None else FORK_SERVER.end(self.pid)

    def release(self) -> None:
        """Release it in a forked copy of the program: it belongs to the original."""
        self.ended = True
        if self._connection is not None:
            self._connection.close()

    def _ask_once(self, question: dict[str, Any], allowance: Allowance) -> Any:
        try:
            body = body_of(question)
        except (TypeError, ValueError, RecursionError) as error:
            raise TemplateError(f"the conversation can't be given to the chat template as JSON: {error}") from error
        if len(body) > LONGEST:
            raise TemplateError("the conversation is larger than any context")
        if allowance.processor <= 0 or allowance.wall <= 0:
            spent = f"{PROCESSOR_SECONDS:g} s of a processor" if allowance.processor <= 0 else f"{SECONDS:g} s"
            raise stopped_error(f"all that was asked of it at once took longer than {spent}")
        most = OWN_TEXT + OUTPUT_PER_BYTE * len(body) if question["ask"] == "apply" else 0
        with allowance.spend():
            answer, seconds = self._exchange(HEAD.pack(len(body), allowance.processor, most), body, most, allowance)
        allowance.processor -= seconds
        match answer:
            case {"done": value}:
                return value
            case {"refused": str(reason)}:
                raise TemplateError(reason)
            case {"stopped": str(reason)}:
                self.end()  # whatever it holds by now, it is given back
                raise TemplateStoppedError(reason)
            case _:
                raise self._death_error("it gave no answer that can be read")

    def _exchange(self, head: bytes, body: bytes, most: int, allowance: Allowance) -> tuple[Any, float]:
        assert self._connection is not None
        deadline = time.monotonic() + allowance.wall
        try:
            self._connection.settimeout(allowance.wall)
            self._connection.sendall(head)
            self._connection.sendall(body)
            length, seconds, resident = HEAD.unpack(self._read(HEAD.size, deadline))
            if length > LONGEST_ESCAPE * most + ROOM:
                raise self._death_error("it writes more than any conversation needs")
            answer = data_of(self._read(length, deadline))
        except TimeoutError:
            shared = "" if allowance.wall >= SECONDS else "all that was asked of it at once"
            raise self._death_error(f"{shared or 'it'} took longer than {SECONDS:g} s") from None
        except OSError:
            raise self._death_error() from None
        except (ValueError, RecursionError):
            raise self._death_error("it gave no answer that can be read") from None
        if resident > KEPT_MEMORY:
            self.end()
        return answer, max(0.0, seconds)

    def _read(self, count: int, deadline: float) -> bytearray:
        assert self._connection is not None
        assert self.pid is not None
        data = bytearray(count)
        view, got = memoryview(data), 0
        while got < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(min(left, LOOK_SECONDS) if WATCHED else left)
            try:
                size = self._connection.recv_into(view[got:], min(count - got, 1 << 20))
            except TimeoutError:
                if not WATCHED:
                    raise
                if resident_bytes(self.pid) > MEMORY:
                    raise self._death_error(TOO_MUCH_MEMORY) from None
                continue
            if not size:
                raise ConnectionResetError
            got += size
        return data

    def _death_error(self, reason: str = "") -> TemplateStoppedError:
        """End the process if it still runs, and return the error with the reason."""
        code = self.end()
        if reason:
            return stopped_error(reason)
        if code == -signal.SIGPROF:
            return stopped_error(f"it took longer than {PROCESSOR_SECONDS:g} s of a processor")
        if code == OUT_OF_MEMORY:
            return stopped_error(TOO_MUCH_MEMORY)
        if code is None:
            return stopped_error("its process was ended")
        how = f"by {signal_name(-code)}" if code < 0 else f"with status {code}"
        return stopped_error(f"it ended its process {how}")


def resident_bytes(pid: int) -> int:
    """Return the bytes of memory that a process uses; 0 if unknown."""
    try:
        command = ["/bin/ps", "-o", "rss=", "-p", str(pid)]
        said = subprocess.run(command, capture_output=True, check=False, timeout=1.0).stdout
        return 1024 * int(said)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


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
                process = self._living.get(number)
                idle = [one for one, other in list(self._living.items()) if other.owner is None]
                if process is None and len(self._living) >= self._most and idle:
                    ended += filter(None, [self._living.pop(idle[0], None)])
                if number in idle or (process is None and len(self._living) < self._most):
                    self._living.pop(number, None)
                    process = process or RendererProcess(opening)
                    process.owner = owner
                    self._living[number] = process
                    return process, ended
                left = deadline - time.monotonic()
                if left <= 0:
                    raise stopped_error("too many templates are at work at once")
                self._changed.wait(left)

    def _give_back(self, number: int, owner: object) -> None:
        with self._changed:
            process = self._living.get(number)
            if process is None or process.owner is not owner:  # it was never taken, or was dropped meanwhile
                return
            process.owner = None
            process.until = time.monotonic() + self._idle
            if process.ended:
                self._living.pop(number, None)
            elif not self._sweeping:
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
                idle = [(number, one) for number, one in list(self._living.items()) if one.owner is None]
                ended = [self._living.pop(number, None) for number, one in idle if one.until <= now]
                self._sweeping = bool(self._living)
                wait = min((one.until - now for _, one in idle if one.until > now), default=self._idle)
                changed.notify_all()
                over = not self._sweeping
            for process in filter(None, ended):
                process.end()
            if over:
                FORK_SERVER.rest()
                return


_NUMBERS = itertools.count(1)

PROCESSES = RendererPool()

os.register_at_fork(after_in_child=FORK_SERVER.forget)
os.register_at_fork(after_in_child=PROCESSES.forget)
atexit.register(FORK_SERVER.close)
