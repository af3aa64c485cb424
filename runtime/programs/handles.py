"""A program as a runtime: one process per reply, a few in parallel, all ended on close."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from attrs import Factory, define, evolve, field, frozen

from cognition import Failure, ModelRequest, Usage
from cognition.context.window import CHARS_PER_TOKEN
from cognition.parsing import FORMATS, Output, TextDelta
from runtime.children import start as starting
from runtime.closeable import Closeable
from runtime.errors import MediaError, ModelNotFoundError, ModelOptionsError, RuntimeClosedError
from runtime.local.handles import LocalGeneration
from runtime.local.real_model_guard import check_allowed
from runtime.local.stops import StopFilter
from runtime.programs import _prompt as prompt
from runtime.programs._conclusion import conclude, without
from runtime.programs._events import EventReader
from runtime.programs._process import Launch, Reaction, RunningProcess
from runtime.programs._program import Program
from runtime.programs.options import ProgramOptions
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, ModelInfo, Timings
from runtime.scheduling.owners import QUEUE_LIMIT, OpenRequests, new_owner, owner_or

MOST = 64
"""Maximum conversations to remember; the least recently continued is forgotten first."""


@frozen
class SessionMatch:
    """A session, and how much of a conversation it contains."""

    session: str = ""
    """Empty for a new session."""
    lines: int = 0
    used: Usage = Usage()
    """The usage of the whole session so far, if the program reports it per session."""


class Sessions:
    """Remembers the sessions. From any thread.

    Args:
        forks: whether continuing a session leaves it unchanged; otherwise only one conversation can continue it.
        first: a session from which unknown conversations start; if ``forks`` is False, only the first of them.
    """

    def __init__(self, *, forks: bool, first: str = "") -> None:
        self._forks = forks
        self._first = first
        self._lock = threading.Lock()
        self._known: dict[bytes, SessionMatch] = {}

    def find(self, about: str, lines: Sequence[str]) -> SessionMatch:
        """Return the session that contains the longest part of a conversation, without its last line.

        Args:
            about: further data that must be equal, such as the system prompt.
            lines: the conversation's messages.
        """
        with self._lock:
            found = SessionMatch(self._first)
            for number, key in enumerate(_keys(about, lines[:-1]), start=1):
                if key in self._known:
                    found = evolve(self._known[key], lines=number)
            if found.lines:
                self._reserve(found.session)
            elif not self._forks:
                self._first = ""
            return found

    def remember(self, about: str, lines: Sequence[str], session: str, used: Usage = Usage()) -> None:  # noqa: B008 - frozen
        """Record that a session now contains all these lines, including the reply, and its usage."""
        *_, key = _keys(about, lines)
        with self._lock:
            self._reserve(session)
            self._known.pop(key, None)
            self._known[key] = SessionMatch(session, used=used)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def forget(self, about: str, lines: Sequence[str], session: str) -> None:
        """Forget a lost session and all entries of this conversation, which then starts a new session."""
        with self._lock:
            gone = set(_keys(about, lines))
            self._known = {key: one for key, one in self._known.items() if one.session != session and key not in gone}
            if self._first == session:
                self._first = ""

    def _reserve(self, session: str) -> None:
        """Reserve a session for one conversation until its reply is complete, unless continuing leaves it unchanged."""
        if not self._forks:
            self._known = {key: one for key, one in self._known.items() if one.session != session}


SHORTEST_SECRET = 6
"""Characters. A shorter value is a switch, and occurs in many messages."""

WHAT_IT_CAN = ("system", "thinking")
"""``ModelInfo.features``. It has no parameter for our tools, so agents describe them in the system prompt."""


def find_program(program: Program, options: ProgramOptions) -> str:
    """Return the absolute path of the program.

    Raises:
        ModelNotFoundError: it is not installed; the message has the command to install it.
    """
    name = os.path.expanduser(options.program) or program.name
    found = shutil.which(name, path=starting.environment().get("PATH"))
    if found is None:
        raise ModelNotFoundError(
            f"the program {name} is not installed, or not on PATH: {program.install}", spec=program.name
        )
    return os.path.abspath(found)


def environment_for(program: Program, options: ProgramOptions) -> dict[str, str]:
    """Return the variables of a process: the system's, the program's own, and those named in the options."""
    base = starting.environment()
    given = {name: value for name, value in base.items() if name in starting.NEEDED or name.startswith(("LC_", "XDG_"))}
    named = [*program.variables, *options.variables]
    named += [name for server in options.mcp_servers for name in (*server.variables, server.token) if name]
    named += [name for name in starting.NEEDED if starting.PROXY.search(name)]
    return given | {name: os.environ[name] for name in named if name in os.environ}


def secrets_of(environ: dict[str, str]) -> tuple[str, ...]:
    """Return the secret values among these variables (by name), longest first."""
    found = {value for name, value in environ.items() if starting.SECRET.search(name) and len(value) >= SHORTEST_SECRET}
    return tuple(sorted(found, key=len, reverse=True))


@define(eq=False)
class _Reply:
    """One reply in progress. Used only on its own thread, except ``running``."""

    request: ModelRequest
    put: Callable[[Output | Done], None]
    owner: int
    submitted: float
    running: RunningProcess
    outputs: list[Output] = field(factory=list)
    stops: StopFilter = field(default=Factory(lambda self: StopFilter(self.request.options.stop), takes_self=True))
    session: str = ""
    dropped: bool = False
    """Whether a part was dropped because the reply was cancelled."""
    started: float | None = None
    first: float | None = None
    last: float | None = None

    def emit(self, output: Output) -> None:
        """Deliver an output, unless the reply was cancelled."""
        if self.running.cancelled:
            self.dropped = True
            return
        if self.stops.hit:
            return
        if isinstance(output, TextDelta):
            text = self.stops.feed(output.text)
            if not text:
                return
            output = TextDelta(text)
        self._emit(output)

    def release(self) -> None:
        """Deliver the buffered text: it was not a stop text."""
        if rest := self.stops.finish():
            if self.running.cancelled:
                self.dropped = True
            else:
                self._emit(TextDelta(rest))

    def _emit(self, output: Output) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.outputs.append(output)
        self.put(output)

    @property
    def timings(self) -> Timings:
        """Durations: until the first output, and after it."""
        if self.started is None or self.first is None or self.last is None:
            return Timings()
        return Timings(self.first - self.started, self.last - self.first, self.first - self.submitted)


class ProgramRunner:
    """Accepts requests; it lives as long as the runtime and its replies."""

    def __init__(self, program: Program, model: str, options: ProgramOptions, queue_limit: int | None) -> None:
        """Create the directory for the program's files; starts nothing.

        Raises:
            ModelOptionsError: the folder to run in does not exist.
            OSError: the directory cannot be created.
        """
        self.program: Program = program
        self.options: ProgramOptions = options
        self._model = model
        self._sessions = Sessions(forks=program.forks, first=options.resume) if options.sessions else None
        self._open = OpenRequests(queue_limit)
        self._lock = threading.RLock()  # a garbage collection may close it in the middle of anything
        self._waiting: deque[_Reply] = deque()
        self._at_work: dict[_Reply, threading.Thread] = {}
        self._numbers = count(1)
        self.closed: bool = False
        folder = None if options.folder is None else Path(options.folder).expanduser()
        if folder is not None and not folder.is_dir():
            raise ModelOptionsError(f"folder: there is no directory {folder}", spec=program.name)
        # For this user alone. Where no folder is given, the program runs in one that stays empty.
        self._place = Path(tempfile.mkdtemp(prefix="cogstep-"))
        (self._place / "empty").mkdir()
        self._folder = folder or self._place / "empty"

    def submit(self, reply: _Reply) -> None:
        """Queue a reply; its ``put`` receives the outputs, then exactly one ``Done``."""
        full = self._open.begin(reply.owner)
        if full is not None:
            reply.put(done_of((), "error", full))
            return
        with self._lock:
            if not self.closed:
                self._waiting.append(reply)
                self._begin_next()
                return
        self._end(reply, done_of((), "cancelled"))

    def cancel(self, reply: _Reply) -> None:
        """Cancel a reply; a waiting reply ends immediately."""
        reply.running.cancel()
        with self._lock:
            if reply not in self._waiting:
                return
            self._waiting.remove(reply)
        self._end(reply, done_of((), "cancelled"))

    def close(self) -> None:
        """End all replies as cancelled, wait for their processes, and delete all files. May be called twice."""
        with self._lock:
            self.closed = True
            replies, threads = [*self._waiting, *self._at_work], list(self._at_work.values())
        for reply in replies:
            self.cancel(reply)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
        shutil.rmtree(self._place, ignore_errors=True)

    def _begin_next(self) -> None:
        while not self.closed and self._waiting and len(self._at_work) < self.options.at_once:
            reply = self._waiting.popleft()
            thread = threading.Thread(
                target=self._work, args=(reply,), name=f"cogstep {self.program.name}", daemon=True
            )
            self._at_work[reply] = thread
            thread.start()

    def _end(self, reply: _Reply, done: Done) -> None:
        self._open.end(reply.owner)
        reply.put(done)

    # ------------------------------------------------------------------------------------------- on a reply's thread

    def _work(self, reply: _Reply) -> None:
        try:
            done = self._answer(reply)
        except Exception as error:  # whatever it is, whoever waits is told
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            done = done_of(reply.outputs, "error", Failure(said, kind="fatal"))
        with self._lock:
            del self._at_work[reply]
            self._begin_next()
        self._end(reply, done)

    def _answer(self, reply: _Reply) -> Done:
        program, request = self.program, reply.request
        refused = prompt.refusal(program.name, request) or program.refusal(request)
        if refused is not None:
            return done_of((), "error", refused)
        environ = environment_for(program, self.options)
        secrets = secrets_of(environ)
        lines = prompt.lines_of(request.messages, native=request.protocol == "native")
        about = f"{request.system}\n{request.options.response_format}"
        known = SessionMatch() if self._sessions is None else self._sessions.find(about, lines)
        reader = program.reader(self.options, bool(request.options.response_format))
        reader.before = known.used
        files = self._place / f"reply-{next(self._numbers)}"
        try:
            launch = self._launch(request, lines, known, files, environ)
            reply.started = time.monotonic()
            ended = reply.running.run(launch, lambda data: _read_output(reply, reader, data))
        except (ModelNotFoundError, OSError) as error:
            unstartable = f"{program.name} can't be started ({error}); install it again: {program.install}"
            said = str(error) if isinstance(error, ModelNotFoundError) else unstartable
            return done_of((), "error", Failure(said, kind="fatal"))
        finally:
            shutil.rmtree(files, ignore_errors=True)
        for output in reader.finish():
            reply.emit(output)
        reply.release()
        reply.session = reader.session
        # What was cancelled after its last word had been handed on is a whole reply. A failure behind a cancellation is
        # how the program took the interruption.
        cancelled = reply.running.cancelled and (reply.dropped or not reader.ended or reader.failure is not None)
        end = conclude(program, reader, ended, self.options, cut=reply.stops.hit, cancelled=cancelled)
        failure = end.failure
        if failure is not None:
            failure = evolve(_add_wait(failure, reader), message=without(failure.message, secrets))
        warnings = (
            *prompt.unsupported_tools(program.name, request),
            *prompt.unsupported_options(program.name, request.options, program.heeded),
            *skipped_permissions_warnings(program, self.options),
            *[without(one, secrets) for one in end.warnings],
        )
        usage, timings = reader.usage, reply.timings
        done = done_of(reply.outputs, end.reason, failure, usage=usage, timings=timings, warnings=warnings)
        if self._sessions is not None:
            if done.failure is not None and done.failure.code == "session_gone":
                self._sessions.forget(about, lines, known.session)
            elif done.finish_reason == "stop" and reader.ended and reader.session:
                said = prompt.line_of({"role": "assistant", "content": done.text})
                self._sessions.remember(about, [*lines, said], reader.session, reader.total)
        return done

    def _launch(
        self, request: ModelRequest, lines: list[str], known: SessionMatch, files: Path, environ: dict[str, str]
    ) -> Launch:
        program, options = self.program, self.options
        path = find_program(program, options)
        contents = program.files_for(request, options)
        if contents:
            files.mkdir(mode=0o700)
        for name, content in contents.items():
            (files / name).touch(mode=0o600)
            (files / name).write_text(content, "utf-8", errors="replace")
        new = lines[known.lines :]
        if request.system and not program.takes_system and not known.lines:
            new = [prompt.system_line(request.system), *new]
        told = prompt.prompt_of(new, goes_on=bool(known.session))
        arguments = program.arguments(request, options, self._model, files, known.session)
        environ = environ | program.settings(request.options)
        return Launch(path, arguments, environ, str(self._folder), told.encode())


def _read_output(reply: _Reply, reader: EventReader, data: bytes) -> Reaction:
    for output in reader.feed(data):
        reply.emit(output)
    if reader.wrong is not None:
        return "kill"
    if reply.stops.hit or reader.reason == "length":
        return "stop"
    return "over" if reader.ended else "more"


def _add_wait(failure: Failure, reader: EventReader) -> Failure:
    """Add the remaining time to a rate limit, if the program reported its end."""
    if failure.kind != "rate_limit" or failure.retry_after is not None or reader.limit_over is None:
        return failure
    return evolve(failure, retry_after=max(reader.limit_over - time.time(), 0.0))


def skipped_permissions_warnings(program: Program, options: ProgramOptions) -> tuple[str, ...]:
    """Return the warning of each reply, if it skips permissions."""
    warning = f"{program.name} runs its tools without asking and outside of any sandbox (dangerously_skip_permissions)"
    return (warning,) if options.dangerously_skip_permissions else ()


class ProgramGeneration(LocalGeneration):
    """A reply of a program in progress; see ``runtime.Generation``."""

    def __init__(self, runtime: ProgramRuntime, reply: _Reply, outputs: SimpleQueue[Output | Done]) -> None:
        runner = runtime.runner
        super().__init__(runtime, outputs, lambda: runner.cancel(reply))
        self._reply = reply

    @property
    def session(self) -> str:
        """The id of the program's session, after the ``Done``; empty if unknown. The program only stores the session
        with ``sessions=True``.
        """
        return self._reply.session


class ProgramRuntime(Closeable):
    """Another agent's program as a model; see ``runtime.Runtime``. Created by ``runtime.load_model("claude")`` and
    similar.

    Usable in a ``with`` statement. It is closed on garbage collection and at the end of this program.
    """

    def __init__(
        self,
        program: Program,
        model: str = "",
        options: ProgramOptions | None = None,
        queue_limit: int | None = QUEUE_LIMIT,
    ) -> None:
        """Find the program; starts nothing.

        Args:
            program: the program.
            model: the name of one of its models; empty for its default.
            options: the options.
            queue_limit: as in ``load_model``.

        Raises:
            ModelNotFoundError: it is not installed.
            ModelOptionsError: the folder to run in does not exist.
            OSError: the directory for its files cannot be created.
        """
        options = program.options() if options is None else options
        find_program(program, options)
        self.runner: ProgramRunner = ProgramRunner(program, model, options, queue_limit)
        self._owner = new_owner()
        name = f"{program.name}:{model}" if model else program.name
        warned = skipped_permissions_warnings(program, options)
        self._info = ModelInfo(
            name,
            program.name,
            "",
            options.context_tokens,
            FORMATS["plain"],
            WHAT_IT_CAN,
            warnings=warned,
            priced=program.reports_costs,
        )
        self._shut = weakref.finalize(self, self.runner.close)

    def submit(self, request: ModelRequest) -> ProgramGeneration:
        self._check_open()
        check_allowed(f"ask {self._info.name}")
        outputs: SimpleQueue[Output | Done] = SimpleQueue()
        running = RunningProcess(self.runner.options)
        reply = _Reply(request, outputs.put, owner_or(self._owner), time.monotonic(), running)
        self.runner.submit(reply)
        return ProgramGeneration(self, reply, outputs)

    def count_tokens(self, request: ModelRequest) -> int:
        """Estimate the prompt tokens of this request: only the program's provider can count them."""
        self._check_open()
        if picture := prompt.picture_refusal(self.runner.program.name, request.messages):
            raise MediaError(picture)
        lines = prompt.lines_of(request.messages, native=request.protocol == "native")
        return int((len(request.system) + len(prompt.prompt_of(lines))) / CHARS_PER_TOKEN)

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        self._shut()
        self.runner.close()  # once more: waits also where another caller has just begun to close

    def _check_open(self) -> None:
        if self.runner.closed:
            raise RuntimeClosedError(self._info.name)


def _keys(about: str, lines: Sequence[str]) -> Iterator[bytes]:
    """Yield a key for each prefix of a conversation. Lines contain no line breaks, so different prefixes have different
    keys.
    """
    so_far = sha256(f"{len(about)}\n{about}\n".encode("utf-8", "surrogatepass"))
    for line in lines:
        so_far.update(f"{line}\n".encode())
        yield so_far.digest()
