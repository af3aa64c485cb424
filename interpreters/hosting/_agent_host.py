"""``AgentHost``: a host in a thread or a process, and its session handles by key."""

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
from cognition.base.checking import show
from interpreters.agents.options import HandleOptions
from interpreters.hosting import _protocol as say
from interpreters.hosting._channels import Channel, PipeChannel, QueueChannel
from interpreters.hosting._errors import HostDiedError, HostError, HostTimeoutError
from interpreters.hosting._handle import AgentHandle
from interpreters.hosting._host import Host
from interpreters.hosting._protocol import ModelChoice, ProtocolError, line_of, read_notice
from interpreters.loop.clock import Clock
from interpreters.loop.program.message_sources import PromptFunction
from interpreters.recording.journal.locking import note_releasing_thread
from interpreters.tools.external import Usable
from runtime.checking import checked_call
from runtime.children import start as starting
from runtime.children.ending import kill_group, signal_name
from runtime.children.line_pipe import LONGEST_REASON
from runtime.closeable import Closeable
from runtime.protocol.model import Runtime

CHILD = "interpreters.hosting.host_main"

CLOSED = "the host was closed"

CLOSE_SECONDS = 10.0
"""Seconds a host may take to end before its process is killed."""

START_WAIT = 600.0
"""Default seconds a process may take until its model is loaded: large models load for minutes."""

ANSWER_WAIT = 60.0
"""Default seconds a host may take for any other answer."""

FAULTS = 100
"""Maximum length of ``AgentHost.faults``: a program that is not a host may print without end."""


class AgentHost(Closeable):
    """Sessions by key that share a model, in a thread of this process or in a separate process."""

    def __init__(
        self,
        channel: Channel,
        *,
        on_gone: Callable[[], str] = lambda: CLOSED,
        answer_wait: float | None = ANSWER_WAIT,
        files: str | os.PathLike[str] | None = None,
    ) -> None:
        """Connect over any channel. Most programs use ``in_thread`` or ``in_process``.

        Args:
            channel: connected to a ``Host``.
            on_gone: called when the channel has ended; returns the reason.
            answer_wait: seconds the host may take to start, reset or end a session, and to end a cancelled turn; None
                waits for ever.
            files: the folder, as this program sees it, to which the names of recordings are relative. Copies of files
                that tools overwrite are saved beside the recordings, for ``AgentHandle.undo``. None: the recordings are
                not reachable here, and no copies are saved.
        """
        self.answer_wait = answer_wait
        self.files: str | None = None if files is None else os.path.abspath(files)
        self.ended: str | None = None
        """The reason why the host has ended; None while it runs."""
        self.model: say.Started | None = None
        """The host's description of its model."""
        self.faults: list[str] = []
        """Messages the host could not read, and errors that belong to no request; the newest ``FAULTS``."""
        self._channel = channel
        self._handles: dict[str, AgentHandle] = {}
        self._turns: dict[int, AgentHandle] = {}
        """The running turns. Their numbers are unique within the host, so that a session never gets messages of another
        session's turn, even after its name was used twice.
        """
        self._waiting: dict[str, tuple[Future[say.Notice], type]] = {}
        """For each request: its future answer, and the type of the answer unless it is refused."""
        self._late: set[str] = set()
        """Requests that have timed out but may still be answered."""
        self._heard = 0
        self._newest = 0
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
        """Start a host in a thread of this process.

        Args:
            model: the model of the sessions.
            owns_model: whether to close it with the host; None as for ``Agent``.
            clock: for tests.
            answer_wait: see the constructor.

        Raises:
            HostTimeoutError: the model's ``describe`` did not return in time. The host's thread ends when that call
                does.
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
        """Start a host in a separate process, so that a crash of the model can't crash this one.

        Args:
            model: for ``load_model`` in that process; a ``ModelChoice`` may choose a factory.
            factories: functions that make models there, by name: as ``"package.module:function"``, or the function
                itself if another process can import it. The process calls no other functions.
            command: started instead of cogstep's own program; it must call ``interpreters.hosting.host_main.serve``.
            env: variables in addition to those that every child gets (``runtime.children.start``), such as the API
                key of a service.
            start_wait: seconds until its model must be loaded; None waits for ever.
            answer_wait: see the constructor.
            files: see the constructor; needed with a ``command``, which may run anywhere.

        Raises:
            ConfigError: another process can't import a factory.
            HostError: the model can't be loaded.
            HostDiedError: the process ended before it could answer.
            HostTimeoutError: its model was not loaded in time; the process and its children were killed.
        """
        choice = model if isinstance(model, ModelChoice) else ModelChoice(model)
        if command is None and files is None:
            with suppress(OSError):  # this program's folder may be gone, and it may have no recordings there
                files = os.getcwd()
        process = start_host(choice.load, factories or {}, command, env)
        reader, writer = process.stdout, process.stdin
        assert reader is not None
        assert writer is not None
        channel = PipeChannel(reader, writer)

        def gone() -> str:
            channel.close()
            channel.drain(CLOSE_SECONDS)
            try:
                code = process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                kill(process)
                code = process.wait()
            reader.close()
            return describe_exit(code)

        host = cls(channel, on_gone=gone, answer_wait=answer_wait, files=files)
        host.process = process
        host._start(choice, start_wait)
        if answer_wait is not None:
            arguments = (weakref.ref(host), host._gone, answer_wait)
            host._watcher = threading.Thread(target=_watch, args=arguments, name="cogstep-watch", daemon=True)
            host._watcher.start()
        return host

    process: subprocess.Popen[bytes] | None = None
    """The host's process, if it has its own."""
    _watcher: threading.Thread | None = None
    lost = ""
    """The reason why this side killed the process, if it did."""
    _cancel_at_once: Callable[[str, int, str, bool], object] | None = None
    """For a host in this process: cancels a turn without waiting for a message to be read."""

    def _start(self, choice: ModelChoice | None, seconds: float | None) -> AgentHost:
        try:
            started = self.request(lambda identity: say.Start(identity, say.VERSION, choice), seconds)
        except HostTimeoutError as error:  # it hangs: a process is killed, and a thread can only be abandoned
            if self.process is not None:
                kill(self.process)
                self.close()
            else:
                self.send(say.Shutdown())
                self._channel.close()
                self._end(str(error))
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
        """Return the session of this name; start it if it does not exist. An existing session is returned unchanged.

        Args:
            key: the name of the session, also used in its journal and events.
            tools: functions that run in this process. The calls of a ``ToolSpec`` arrive in the stream, for the program
                to answer.
            system: the system prompt, or a function that returns one for each message, called in this process.
            given: see ``HandleOptions``.

        Raises:
            HostError: the session can't be started.
            HostDiedError: the host has ended.
            HostTimeoutError: the session did not start in time, such as with a journal on a disk that hangs.
        """
        if self.model is None:  # over a channel of the program's own: its host may have a model, of whatever size
            self._start(None, self.answer_wait)
        with self._lock:
            if (known := self._handles.get(key)) is not None:
                return known
            handle = AgentHandle(self, key, tools, system, given)
            init = say.Init("", key, handle.config, handle.settings(), handle.given["resume"])
            self._handles[key] = handle
        return self._ready(handle, init)

    def begin_fork(self, handle: AgentHandle, fork: say.Fork) -> AgentHandle:
        """See ``AgentHandle.fork``."""
        with self._lock:
            if handle.key in self._handles:
                raise ConfigError(f"there is a session {handle.key!r} already; choose another key")
            self._handles[handle.key] = handle
        return self._ready(handle, fork)

    def _ready(self, handle: AgentHandle, begin: say.Init | say.Fork) -> AgentHandle:
        try:
            self.request(lambda identity: evolve(begin, id=identity), self.answer_wait)
        except BaseException as error:
            self.forget(handle)
            if isinstance(error, HostTimeoutError):  # should it ever be there, it ends at once
                identity = f"r{next(self._identities)}"
                with self._lock:
                    self._late.add(identity)
                self.send(say.Dispose(identity, handle.key))
            raise
        return handle

    def begin_turn(self, handle: AgentHandle) -> int:
        """Return the number of a new turn and register the handle for its messages."""
        with self._lock:
            self._newest += 1
            self._turns[self._newest] = handle
            return self._newest

    def end_turn(self, number: int) -> None:
        """Stop the delivery of this turn's messages."""
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
        """End all sessions and the host. Wait for its end, and kill its process if it takes too long."""
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
            handle.end()

    def __del__(self) -> None:
        """End the sessions if the host was not closed. A later writer of their recordings waits for that end."""
        reader: threading.Thread | None = getattr(self, "_reader", None)  # the constructor may have failed before
        if reader is not None and self.ended is None:
            note_releasing_thread(reader)
            self.send(say.Shutdown())
            self._channel.close()

    # ------------------------------------------------------------------------------------------------------- messages

    def send(self, request: say.Request) -> None:
        self._channel.send(line_of(request, say.LONGEST))

    def cancel_turn(self, session: str, turn: int, reason: str, keep: bool) -> None:
        """Stop this turn. Safe in a signal handler."""
        if self._cancel_at_once is not None:
            self._cancel_at_once(session, turn, reason, keep)
        self.send(say.Cancel(session, turn, reason, keep))

    def request(self, make: Callable[[str], say.Request], seconds: float | None) -> say.Notice:
        """Send a request with an id and wait up to ``seconds`` for its answer; None waits for ever.

        Raises:
            HostError: the request was refused.
            HostDiedError: the host has ended.
            HostTimeoutError: there was no answer in time.
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
            notice = answer.result(seconds)
        except (ConfigError, TimeoutError) as error:
            with self._lock:
                self._waiting.pop(identity, None)
                if isinstance(error, ConfigError):  # it can't be said
                    raise
                self._late.add(identity)
            raise HostTimeoutError(f"the host gave no answer to {request.tag}", seconds or 0.0) from None
        if isinstance(notice, say.Refused):
            raise HostError(notice.message[:LONGEST_REASON] or "the host refused it", notice.error[:LONGEST_REASON])
        return notice

    def _receive(self, notice: Any, length: int) -> None:
        """Handle a message from the host.

        Raises:
            ProtocolError: the message is not possible at this point.
        """
        self._heard += 1
        if isinstance(notice, say.Faulted):
            self._note_fault(notice.message)
        elif isinstance(notice, say.Reply):
            with self._lock:
                waiting, expected = self._waiting.get(notice.id, (None, type(notice)))
                known = waiting is not None or notice.id in self._late
                if known and isinstance(notice, say.Refused | expected) and self._is_expected(notice):
                    self._waiting.pop(notice.id, None)
                    self._late.discard(notice.id)
                else:
                    raise ProtocolError(f"{notice.tag} for {notice.id!r}, which does not wait for that")
            if waiting is not None:
                waiting.set_result(notice)
        else:
            handle = self._turns.get(notice.turn)
            if handle is not None and handle.key == notice.session:
                handle.receive(notice, length)
            elif handle is not None or not 0 < notice.turn <= self._newest:
                turn = f"a turn {notice.turn} of {notice.session!r}"
                raise ProtocolError(f"{notice.tag} of {turn}, which was never begun")

    def _is_expected(self, notice: say.Notice) -> bool:
        if not isinstance(notice, say.Ready) or notice.id in self._late:
            return True
        if (handle := self._handles.get(notice.session)) is not None:
            handle.note_status(notice.unfinished, notice.pending)
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
            handle.fail_turn(error)
        self._gone.set()


def _read(find: Callable[[], AgentHost | None], channel: Channel, on_gone: Callable[[], str]) -> None:
    """Read messages, on a separate thread, until the channel ends or the host breaks the protocol."""
    wrong = ""
    try:
        while (line := channel.receive()) is not None:
            if (host := find()) is not None:
                host._receive(read_notice(line), len(line))
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
        if (host := find()) is not None:
            host._end(wrong or host.lost or reason)


def _watch(find: Callable[[], AgentHost | None], gone: threading.Event, seconds: float) -> None:
    """Ping the host's process while turns are running but no messages arrive; kill it if it does not answer."""
    heard = 0
    while not gone.wait(seconds):
        if (host := find()) is None:
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


ANSWERED_BY = {say.Start: say.Started, say.Init: say.Ready, say.Fork: say.Ready, say.AskRemembered: say.Remembered}
"""The type of the answer to a request; ``Accepted`` for all others."""


def start_host(
    load: str | None,
    factories: Mapping[str, str | Callable[..., Any]],
    command: Sequence[str] | None,
    env: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    """Start the process; the arguments are those of ``AgentHost.in_process``.

    Raises:
        ConfigError: another process can't import a factory.
        OSError: the process can't be started.
    """
    environ = starting.environment(env, downloads=(load or "").startswith("hf:"))
    if command is not None:
        found = {"PYTHONPATH": os.pathsep.join([*starting.module_path(), *starting.HOMES]), "PYTHONSAFEPATH": "1"}
        return starting.run(command, env=found | environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    named = {name: place_of(make) for name, make in factories.items()}
    places = [starting.folder_of(place.partition(":")[0]) for place in named.values()]
    arguments = ["--files=/"]  # it is this program alone that speaks to it
    arguments += [f"--factory={name}={place}" for name, place in named.items()]
    arguments += [] if load is None else [f"--model={load}"]
    folders = [folder for folder in places if folder]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return starting.start(CHILD, arguments, environ=environ, folder=None, folders=folders, **pipes)


def place_of(factory: str | Callable[..., Any]) -> str:
    """Return a name for importing a function in another process.

    Raises:
        ConfigError: another process can't import it.
    """
    if isinstance(factory, str):
        module, colon, name = factory.partition(":")
    else:
        module, colon, name = getattr(factory, "__module__", ""), ":", getattr(factory, "__qualname__", "")
    if not (module and colon and name.isidentifier()) or module == "__main__":
        raise ConfigError(
            f"{show(factory)} is no factory that another process can find: put the function into a module, and name "
            "it as package.module:function"
        )
    return f"{module}:{name}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children (they are in its session): a pipe that a child holds would never end."""
    if process.poll() is None:
        kill_group(process.pid)


def describe_exit(code: int) -> str:
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with status {code}"
    return f"the host's process {how}" if code else CLOSED
