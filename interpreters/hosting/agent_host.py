"""Where handles come from: a host in a thread or in a process, and the sessions that it keeps by their keys."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Unpack

from attrs import evolve

from cognition import CogstepError, ConfigError
from interpreters.agents.options import HandleOptions
from interpreters.hosting import messages as say
from interpreters.hosting.channels import Channel, PipeChannel, QueueChannel
from interpreters.hosting.errors import HostDiedError, HostError, HostTimeoutError
from interpreters.hosting.handle import AgentHandle
from interpreters.hosting.host import Host
from interpreters.hosting.host_process import CLOSED, end_of, kill, start_host
from interpreters.hosting.messages import ModelChoice, ProtocolError, line_of, read_notice
from interpreters.loop.clock import Clock
from interpreters.program.prompting import PromptFunction
from interpreters.recording.journal.locking import released_by
from interpreters.tools.external import Usable
from runtime.checking import checked_call
from runtime.children.lines import LONGEST_REASON
from runtime.protocol import Runtime

CLOSE_SECONDS = 10.0
"""How long a host may take for its end before its process is killed."""

START_WAIT = 600.0
"""Seconds that a process may take until its model is there, unless said otherwise: large ones load for minutes."""

ANSWER_WAIT = 60.0
"""Seconds that a host may take for anything else, unless it is said otherwise."""

FAULTS = 100
"""How many of ``AgentHost.faults`` are kept: a program that is no host may print without end."""


class AgentHost:
    """Sessions, keyed, with one model: in a thread of this process or in a process of their own."""

    def __init__(
        self,
        channel: Channel,
        *,
        on_gone: Callable[[], str] = lambda: CLOSED,
        answer_wait: float | None = ANSWER_WAIT,
        files: str | os.PathLike[str] | None = None,
    ) -> None:
        """Over any channel. Most programs use ``in_thread`` or ``in_process``.

        Args:
            channel: to a ``Host``.
            on_gone: called when the channel has ended; says why.
            answer_wait: seconds that the host may take to begin a session, to reset or end one, and to end a turn that
                was cancelled; None to wait for ever.
            files: the folder from which the names of recordings lead, as this program sees it: beside them is kept what
                tools overwrite, for ``AgentHandle.undo``. None: they are elsewhere, and nothing is kept.
        """
        self.answer_wait = answer_wait
        self.files = None if files is None else os.path.abspath(files)
        self.ended: str | None = None
        """Why the host has gone; None while it is there."""
        self.model: say.Started | None = None
        """What the host says of its model."""
        self.faults: list[str] = []
        """What the host could not read, or had to say that belongs to no request; the newest ``FAULTS`` of it."""
        self._channel = channel
        self._handles: dict[str, AgentHandle] = {}
        self._turns: dict[int, AgentHandle] = {}
        """The turns under way. They are counted by the host, so that no session, not even a second one of that name, is
        ever given what belongs to a turn of another."""
        self._waiting: dict[str, tuple[Future[say.Notice], type]] = {}
        """What each request waits for, and what answers it where it is not refused."""
        self._late: set[str] = set()
        """Those that were waited for long enough, and may yet be answered."""
        self._heard = 0
        """How many messages have come."""
        self._numbers = itertools.count(1)
        self._newest = 0
        """The number of the newest turn."""
        self._identities = itertools.count(1)
        self._lock = threading.Lock()
        self._gone = threading.Event()
        # The thread doesn't hold the host, so that one that is dropped ends.
        self._reader = threading.Thread(
            target=_read, args=(weakref.ref(self), channel, on_gone), name="cogstep-handle", daemon=True
        )
        self._reader.start()

    @classmethod
    @checked_call
    def in_thread(
        cls,
        model: Runtime,
        *,
        owns_model: bool | None = None,
        clock: Clock | None = None,
        answer_wait: float | None = ANSWER_WAIT,
    ) -> AgentHost:
        """A host in a thread of this process.

        Args:
            model: what the sessions use.
            owns_model: whether it is closed with the host; None as for ``Agent``.
            clock: for tests.
            answer_wait: as of the constructor.

        Raises:
            HostTimeoutError: the model did not even say what it is. Its thread ends when that call does.
        """
        ours, theirs = QueueChannel.pair()
        host = Host(theirs, model, owns_model=owns_model, clock=clock, files="/")  # it is this program that speaks
        thread = threading.Thread(target=host.serve, name="cogstep-host", daemon=True)
        thread.start()

        def gone() -> str:
            thread.join(CLOSE_SECONDS)
            return CLOSED

        here = cls(ours, on_gone=gone, answer_wait=answer_wait)
        here.files = os.curdir  # wherever this program stands when a session begins
        here._cancel_at_once = host.cancel
        return here._start(None, answer_wait)

    @classmethod
    @checked_call
    def in_process(
        cls,
        model: str | ModelChoice | None = None,
        *,
        factories: Mapping[str, str | Callable[..., Runtime]] | None = None,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        start_wait: float | None = START_WAIT,
        answer_wait: float | None = ANSWER_WAIT,
        files: str | os.PathLike[str] | None = None,
    ) -> AgentHost:
        """A host in a process of its own, which a crash of the model can't take this one with.

        Args:
            model: for ``load_model`` there; a ``ModelChoice`` may choose one of ``factories``.
            factories: functions that make models over there, by names: as ``"package.module:function"``, or the
                function itself where a module of its own holds it. The process calls no other one.
            command: what is started in the place of cogstep's own program; it has to call
                ``interpreters.hosting.child.serve``.
            env: variables that it gets beside those that a child of ours needs (``runtime.children.starting``), such as
                the key of a service.
            start_wait: seconds until its model has to be there; None to wait for ever.
            answer_wait: as of the constructor.
            files: as of the constructor, where there is a ``command``, which may run anywhere.

        Raises:
            ConfigError: a factory is no function that another process can find.
            HostError: the model can't be loaded.
            HostDiedError: the process ended before it could answer.
            HostTimeoutError: its model was not there in time; the process, and what it had started, was killed.
        """
        choice = model if isinstance(model, ModelChoice) else ModelChoice(model)
        if command is None and files is None:
            with suppress(OSError):  # this program's folder may be gone, and it may have no recordings there
                files = os.getcwd()
        process = start_host(choice.load, factories or {}, command, env)
        assert process.stdin is not None
        assert process.stdout is not None
        channel = PipeChannel(process.stdout, process.stdin)

        def gone() -> str:
            channel.close()
            channel.drain(CLOSE_SECONDS)
            try:
                code = process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                kill(process)
                code = process.wait()
            assert process.stdout is not None
            process.stdout.close()
            return end_of(code)

        host = cls(channel, on_gone=gone, answer_wait=answer_wait, files=files)
        host.process = process
        host._start(choice, start_wait)
        if answer_wait is not None:
            arguments = (weakref.ref(host), host._gone, answer_wait)
            host._watcher = threading.Thread(target=_watch, args=arguments, name="cogstep-watch", daemon=True)
            host._watcher.start()
        return host

    process: subprocess.Popen[bytes] | None = None
    """Of a host in a process of its own."""
    _watcher: threading.Thread | None = None
    """Looks whether its process lives."""
    lost = ""
    """Why its process was killed, where this side did it."""
    _cancel_at_once: Callable[[str, int, str, bool], object] | None = None
    """Of a host in this process: cancels a turn without waiting for a message to be read."""

    def _start(self, choice: ModelChoice | None, seconds: float | None) -> AgentHost:
        try:
            started = self.request(lambda identity: say.Start(identity, say.VERSION, choice), seconds)
        except HostTimeoutError as error:
            self._give_up(str(error))
            raise
        except BaseException:
            self.close()
            raise
        assert isinstance(started, say.Started)
        self.model = started
        return self

    # ------------------------------------------------------------------------------------------------------- sessions

    @checked_call
    def open(
        self,
        key: str,
        tools: Iterable[Usable] = (),
        system: str | PromptFunction = "",
        **given: Unpack[HandleOptions],
    ) -> AgentHandle:
        """The session of this name: a new one, or the one that there is, as it is.

        Args:
            key: its name, also in its journal and in its events.
            tools: they run in this process. Of a ``ToolSpec`` the calls come in the stream, to be answered by hand.
            system: the system prompt, or a function that makes it anew for each message, in this process.
            given: see ``HandleOptions``.

        Raises:
            HostError: the session can't be begun.
            HostDiedError: the host has gone.
            HostTimeoutError: it was not there in time, such as with a journal on a disk that hangs.
        """
        if self.model is None:  # over a channel of the program's own: its host may have a model, of whatever size
            self._start(None, self.answer_wait)
        with self._lock:
            known = self._handles.get(key)
            if known is not None:
                return known
            handle = AgentHandle(self, key, tools, system, given)
            settings = handle.settings(handle.given["journal"])
            init = say.Init("", key, handle.config, settings, handle.given["resume"])
            self._handles[key] = handle
        return self._ready(handle, init)

    def branch(
        self, origin: AgentHandle, key: str, after: int | None, system: str, journal: str | None, foreign: bool
    ) -> AgentHandle:
        """See ``AgentHandle.fork``."""
        made = None if origin.prompting is None else origin.prompting.function
        given: Any = {**origin.given, "journal": journal}
        handle = AgentHandle(self, key, origin.tools, system or made or "", given)
        fork = say.Fork("", origin.key, key, handle.config, handle.settings(journal), after, foreign)
        with self._lock:
            if key in self._handles:
                raise ConfigError(f"there is a session {key!r} already; choose another key")
            self._handles[key] = handle
        return self._ready(handle, fork)

    def _ready(self, handle: AgentHandle, begin: say.Init | say.Fork) -> AgentHandle:
        try:
            ready = self.request(lambda identity: evolve(begin, id=identity), self.answer_wait)
        except BaseException as error:
            self.forget(handle)
            if isinstance(error, HostTimeoutError):  # should it ever be there, it ends at once
                identity = f"r{next(self._identities)}"
                with self._lock:
                    self._late.add(identity)
                self.send(say.Dispose(identity, handle.key))
            raise
        assert isinstance(ready, say.Ready)
        return handle

    def begin_turn(self, handle: AgentHandle) -> int:
        """The number of a new turn, of which this handle is told."""
        with self._lock:
            number = self._newest = next(self._numbers)
            self._turns[number] = handle
        return number

    def end_turn(self, number: int) -> None:
        """Nothing that comes of this turn is wanted any more."""
        with self._lock:
            self._turns.pop(number, None)

    def forget(self, handle: AgentHandle) -> None:
        with self._lock:
            if self._handles.get(handle.key) is handle:
                del self._handles[handle.key]

    def __getitem__(self, key: str) -> AgentHandle:
        return self._handles[key]

    def __contains__(self, key: object) -> bool:
        return key in self._handles

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._handles))

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def alive(self) -> bool:
        """Whether the host has not ended."""
        return self.ended is None

    def close(self) -> None:
        """End all sessions and the host; wait for it, and kill its process if it takes too long."""
        if self.ended is None:
            self.send(say.Shutdown())
            self._channel.close()
            if not self._gone.wait(CLOSE_SECONDS) and self.process is not None:
                kill(self.process)
        self._gone.wait(CLOSE_SECONDS)
        self._reader.join(CLOSE_SECONDS)
        if self._watcher is not None:
            self._watcher.join(CLOSE_SECONDS)
        for handle in list(self._handles.values()):
            handle.observers.close()

    def _give_up(self, reason: str) -> None:
        """The host hangs: kill its process; a thread is left alone."""
        if self.process is not None:
            kill(self.process)
            self.close()
        else:
            self.send(say.Shutdown())
            self._channel.close()
            self._end(reason)

    def __del__(self) -> None:
        """Dropped without ``close``: its sessions end, and whoever wants to write their recordings waits for that."""
        reader: threading.Thread | None = getattr(self, "_reader", None)  # the constructor may have failed before
        if reader is not None and self.ended is None:
            released_by(reader)
            self.send(say.Shutdown())
            self._channel.close()

    def __enter__(self) -> AgentHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------------- messages

    def send(self, request: say.Request) -> None:
        self._channel.send(line_of(request, say.LONGEST))

    def cancel_turn(self, session: str, turn: int, reason: str, keep: bool) -> None:
        """Stop this turn. Safe in a signal handler."""
        if self._cancel_at_once is not None:
            self._cancel_at_once(session, turn, reason, keep)
        self.send(say.Cancel(session, turn, reason, keep))

    def request(self, make: Callable[[str], say.Request], seconds: float | None) -> say.Notice:
        """Send what has an id, and wait so long for its answer; None for as long as it takes.

        Raises:
            HostError: it was refused.
            HostDiedError: the host has gone.
            HostTimeoutError: there was no answer.
        """
        identity = f"r{next(self._identities)}"
        answer: Future[say.Notice] = Future()
        with self._lock:
            if self.ended is not None:
                raise HostDiedError(self.ended)
            request = make(identity)
            self._waiting[identity] = answer, ANSWERED_BY.get(type(request), say.Accepted)
        try:
            self.send(request)
        except ConfigError:  # it can't be said
            with self._lock:
                self._waiting.pop(identity, None)
            raise
        try:
            notice = answer.result(seconds)
        except TimeoutError:
            with self._lock:
                self._waiting.pop(identity, None)
                self._late.add(identity)
            raise HostTimeoutError(f"the host gave no answer to {request.tag}", seconds or 0.0) from None
        if isinstance(notice, say.Refused):
            raise HostError(notice.message[:LONGEST_REASON] or "the host refused it", notice.error[:LONGEST_REASON])
        return notice

    def _arrived(self, notice: Any, length: int) -> None:
        """Take a message; raises ProtocolError where it can't be right."""
        self._heard += 1
        if isinstance(notice, say.Faulted):
            self._note_fault(notice.message)
        elif isinstance(notice, say.Started | say.Ready | say.Remembered | say.Accepted | say.Refused):
            with self._lock:
                waiting, expected = self._waiting.get(notice.id, (None, type(notice)))
                known = waiting is not None or notice.id in self._late
                if known and isinstance(notice, say.Refused | expected) and self._fits(notice):
                    self._waiting.pop(notice.id, None)
                    self._late.discard(notice.id)
                else:
                    raise ProtocolError(f"{notice.tag} for {notice.id!r}, which does not wait for that")
            if waiting is not None:
                waiting.set_result(notice)
        else:
            handle = self._turns.get(notice.turn)
            if handle is not None and handle.key == notice.session:
                handle.arrived(notice, length)
            elif handle is not None or not 0 < notice.turn <= self._newest:
                raise ProtocolError(
                    f"{notice.tag} of a turn {notice.turn} of {notice.session!r}, which was never begun"
                )

    def _fits(self, notice: say.Notice) -> bool:
        if not isinstance(notice, say.Ready) or notice.id in self._late:
            return True
        handle = self._handles.get(notice.session)
        if handle is not None:
            handle.stands(notice.unfinished, notice.pending)
        return handle is not None

    def _note_fault(self, message: str) -> None:
        self.faults.append(message[:LONGEST_REASON])
        del self.faults[:-FAULTS]

    def _end(self, reason: str) -> None:
        with self._lock:
            if self.ended is not None:
                return
            self.ended = reason
            handles, waiting = list(self._turns.values()), [answer for answer, _ in self._waiting.values()]
            self._waiting.clear()
        error = HostDiedError(reason)
        for answer in waiting:
            answer.set_exception(error)
        for handle in handles:
            handle.lost(error)
        self._gone.set()


def _read(find: Callable[[], AgentHost | None], channel: Channel, on_gone: Callable[[], str]) -> None:
    """On a thread of its own, until the channel ends, or what comes can't be right."""
    wrong = ""
    try:
        while (line := channel.receive()) is not None:
            host = find()
            if host is not None:
                host._arrived(read_notice(line), len(line))
                del host  # else it would be held while nothing comes
    except CogstepError as error:  # no message, one that does not belong there, or an event that is none
        wrong = f"the host said what can't be right ({error}), and is not spoken to any more"
    finally:
        host = find()
        if wrong:
            channel.close()
            if host is not None:
                host._note_fault(wrong)
                if host.process is not None:
                    kill(host.process)
        del host
        reason = on_gone()
        host = find()
        if host is not None:
            host._end(wrong or host.lost or reason)


def _watch(find: Callable[[], AgentHost | None], gone: threading.Event, seconds: float) -> None:
    """Ask now and then, while turns are under way and nothing comes of them, whether the host's process lives."""
    heard = 0
    while not gone.wait(seconds):
        host = find()
        if host is None:
            return
        if host._turns and host._heard == heard:
            try:
                host.request(say.Ping, seconds)
            except HostTimeoutError:
                host.lost = f"the host's process gave no sign of life for {seconds:g} seconds, and was killed"
                assert host.process is not None
                kill(host.process)
            except CogstepError:  # it answers, which is a sign of life, or has gone
                pass
        heard = host._heard
        del host


ANSWERED_BY: dict[type, type] = {
    say.Start: say.Started,
    say.AskRemembered: say.Remembered,
    **dict.fromkeys((say.Init, say.Fork), say.Ready),
}
"""What answers a request; all others have ``Accepted``."""
