"""The program's side of one template's process: start, ask, end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from typing import Any

from runtime.children.ending import signal_name
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._compiled_template import TOO_MUCH_MEMORY, stopped_error
from runtime.templates._fork_server import FORK_SERVER
from runtime.templates._framing import HEAD, LONGEST, body_of, data_of
from runtime.templates.limits import (
    KEPT_MEMORY,
    MEMORY,
    OUT_OF_MEMORY,
    OUTPUT_PER_BYTE,
    OWN_TEXT,
    PROCESSOR_SECONDS,
    SECONDS,
    Allowance,
)

WATCHED = sys.platform != "linux"
"""If the system does not enforce ``RLIMIT_AS``, this side checks the process's memory while it waits."""

LOOK_SECONDS = 0.05

LONGEST_ESCAPE, ROOM = 6, 1_000_000
r"""The most bytes of a character in JSON (``\u0001``), and of an answer apart from its text: derived facts or the
reason of a refusal.
"""


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
