"""The tools ``Bash``, ``BashOutput`` and ``KillShell``."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from cognition import AccessRules, ConfigError
from interpreters.toolbox.root_directory import format_path
from interpreters.toolbox.shell._command import LATE, LOOK, Command
from interpreters.toolbox.shell._denied_paths import Denials
from interpreters.toolbox.shell._output import SHOWN, CommandOutput, OutputFolder
from interpreters.toolbox.shell._sandboxed_command import SandboxedCommand
from interpreters.toolbox.shell.environment import check_environment, environment, shell_program
from interpreters.toolbox.shell.sandbox import Choice, Sandbox, choose_sandbox
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, ToolError, ToolOptions, tool
from runtime.checking import checked_call

AT_ONCE = 16
"""Commands that may run in the background at the same time."""
REMEMBERED = 64
"""Ended commands whose output can still be read."""


class BackgroundCommand:
    """A command in the background."""

    def __init__(self, text: str, command: Command, confined: SandboxedCommand, limit: float | None) -> None:
        self.text = text
        """The command line."""
        self.command = command
        self.confined = confined
        self.ended: threading.Event = threading.Event()
        self._limit = limit
        threading.Thread(target=self._run, name="cogstep shell", daemon=True).start()

    def _run(self) -> None:
        try:
            self.command.run(None, self._limit)
        finally:
            self.command.output.close()
            self.ended.set()

    def wait(self, seconds: float, context: ToolContext[Any] | None = None) -> None:
        """Wait until it has ended, the time is over, or the call is cancelled."""
        until = time.monotonic() + seconds
        while not self.ended.is_set() and (left := until - time.monotonic()) > 0:
            self.ended.wait(min(left, LOOK))
            if context is not None:
                context.check()

    def read(self) -> str:
        """Return the output since the last read, and its status."""
        over = self.ended.is_set()  # asked first: what comes after this is for the next time
        return format_result(self.command, *self.command.output.take(last=over), self.confined)


TIMEOUT = 120.0
"""Seconds for a command whose call sets no timeout."""
LONGEST = 600.0
"""Longest timeout that a call may set."""
LONGEST_WAIT = 60.0
"""Seconds that ``BashOutput`` waits at most."""
BACKGROUND = "Return at once and let it run on; read it with BashOutput."
LEAST_SHOWN = 100
"""Least number of characters; less would not be readable."""


class ShellTools(tuple[Tool[..., Any], ...]):
    """The three tools of one shell. ``close`` ends all their commands; afterwards the tools refuse calls.

    Without ``close``, the commands end when the tools are garbage collected, or the program ends.
    """

    _shell: Shell

    @property
    def confined(self) -> bool:
        """Whether commands run in a sandbox."""
        return self._shell.sandbox.confined

    @property
    def sandbox(self) -> str:
        """The sandbox of commands: ``bubblewrap``, ``landlock`` or ``seatbelt``; empty if they are not confined."""
        return self._shell.sandbox.wall or ""

    def close(self) -> None:
        """End the running commands and wait for them. A second call does nothing."""
        self._shell.close()

    def __enter__(self) -> ShellTools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Shell:
    """Runs commands in one directory."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        shown: int,
        output_folder: str | os.PathLike[str] | None,
        given: Mapping[str, str],
        sandbox: Choice,
        readable: Sequence[str | os.PathLike[str]],
    ) -> None:
        self.root: Path = _directory("tools need a directory to work in", root)
        self.folder: OutputFolder | None = None
        if output_folder is not None:
            what = "output_folder has to be a directory"
            try:
                self.folder = OutputFolder(_directory(what, output_folder))
            except OSError as error:
                raise ConfigError(
                    f"{what}, and {os.fspath(output_folder)} can't be opened: {error.strerror}"
                ) from error
        program = shell_program((self.root,)) if os.name == "posix" else None
        if program is None:
            raise ConfigError("Bash needs a POSIX system with bash or sh on the path")
        self.program = program
        check_environment(given)
        seen = [_directory("readable has to name directories", one) for one in readable]
        self._names = [
            (path, os.path.abspath(one)) for path, one in zip((self.root, *seen), (root, *readable), strict=True)
        ]
        if self.folder is not None:
            seen.append(self.folder.path)
        self.shown = shown
        self.sandbox: Sandbox = choose_sandbox(sandbox, self.root, program, seen, given)
        self.readable: tuple[Path, ...] = tuple(seen)
        self.jobs: dict[str, BackgroundCommand] = {}
        """The commands in the background by name: ``shell-1``, ``shell-2``, ..."""
        self._numbers = count(1)
        self._given = dict(given)
        self._running: set[Command] = set()
        self._closed = False
        self._process = os.getpid()
        weakref.finalize(self, _end, self.jobs, self._process)

    def run(self, command: str, limit: float, context: ToolContext[Any], *, network: bool) -> str:
        """Run a command to its end, and return its output and status.

        Raises:
            ToolError: it can't be started, or exceeds ``limit``; the message contains its output.
            ToolCancelled: the call was cancelled.
        """
        confined = self.confine(context.access, network=network)
        running = self._start(command, confined, background=False)
        self._running.add(running)
        try:
            if self._closed:
                running.end("the shell was closed")
            running.run(context, limit)
            running.check_started()
            context.check()
            text = format_result(running, *running.output.take(last=True), confined)
        finally:
            self._running.discard(running)
            running.output.close()
        if running.reason:
            raise ToolError(text)
        return text

    def start(self, command: str, limit: float | None, context: ToolContext[Any], *, network: bool) -> str:
        """Start a command in the background, and return its name.

        Raises:
            ToolError: it can't be started, or too many are running.
        """
        at_work = [name for name, job in list(self.jobs.items()) if not job.ended.is_set()]
        if len(at_work) >= AT_ONCE:
            raise ToolError(f"{AT_ONCE} commands run in the background already; end one first: {', '.join(at_work)}")
        confined = self.confine(context.access, network=network)
        running = self._start(command, confined, background=True)
        name = f"shell-{next(self._numbers)}"
        self.jobs[name] = BackgroundCommand(command, running, confined, limit)
        ended = [one for one, job in list(self.jobs.items()) if job.ended.is_set()]
        for one in ended[:-REMEMBERED]:
            self.jobs.pop(one, None)
        if self._closed:
            running.end("the shell was closed")
        whole = f" All that it prints goes to {running.output.path}." if running.output.path else ""
        return f"It runs in the background as {name}. BashOutput reads what it prints, KillShell ends it.{whole}"

    def job(self, name: str) -> BackgroundCommand:
        """Return the command in the background with this name.

        Raises:
            ToolError: there is no such command.
        """
        job = self.jobs.get(name)
        if job is None:
            known = ", ".join(list(self.jobs)) or "none was started"
            raise ToolError(f"no command runs in the background as {name!r}; known are: {known}")
        return job

    def check(self, command: str) -> None:
        """Check that a command can be started.

        Raises:
            ToolError: it can't be started.
        """
        if self._closed or self._process != os.getpid():
            raise ToolError("the shell was closed; no command runs in it any more")
        if not command.strip():
            raise ToolError("the command is empty")
        if "\0" in command:
            raise ToolError("the command has a NUL character in it, which no program can be given")
        try:
            command.encode()
        except UnicodeEncodeError as error:
            raise ToolError("the command has half a character in it (a lone surrogate)") from error

    def confine(self, access: AccessRules, *, network: bool) -> SandboxedCommand:
        """Return how one command is confined, under policy's rules for it."""
        path = environment(self._given)["PATH"]
        denials = None
        if self.sandbox.confined:
            denials = Denials(access, self.root, self.readable, path, network=network, names=self._names)
        return SandboxedCommand(self.sandbox, access, denials)

    def _start(self, command: str, confined: SandboxedCommand, *, background: bool) -> Command:
        self.check(command)
        environ = self.sandbox.environment(self.root)
        words = (*confined.words(), *self.program.words(command))
        output = CommandOutput(self.shown, self.folder, at_once=background)
        try:
            return Command(words, environ, self.root, output)
        except BaseException:
            output.close()
            raise

    def close(self) -> None:
        self._closed = True
        if self._process != os.getpid():  # one that was forked off: they are its parent's
            return
        for running in list(self._running):
            running.end("the shell was closed")
        _end(self.jobs, self._process)
        for job in list(self.jobs.values()):
            job.wait(2 * LATE)
        if self.folder is not None and not self._running:  # else it goes with the last of them
            self.folder.close()


def _end(jobs: Mapping[str, BackgroundCommand], process: int) -> None:
    """Ask all commands to end, without waiting. A process that was forked off leaves them to its parent."""
    if process == os.getpid():
        for job in list(jobs.values()):
            job.command.end("the shell was closed")


def _directory(what: str, path: str | os.PathLike[str]) -> Path:
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        found = None
    if found is None or not found.is_dir():
        raise ConfigError(f"{what}, and {os.fspath(path)} is none")
    return found


@checked_call
def shell_tools(
    root: str | os.PathLike[str],
    *,
    timeout: float = TIMEOUT,
    longest: float = LONGEST,
    shown: int = SHOWN,
    output_folder: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    sandbox: Choice = "auto",
    readable: Sequence[str | os.PathLike[str]] = (),
    network: Literal["ask", "never"] = "ask",
) -> ShellTools:
    """Return ``Bash``, ``BashOutput`` and ``KillShell`` for the directory ``root``.

    Args:
        root: the working directory of every command.
        timeout: seconds for a command whose call sets no timeout.
        longest: longest timeout in seconds that a call may set.
        shown: characters of an output that the model reads.
        output_folder: folder for longer outputs, each in a file that only this user may read. You must delete these
            files yourself. None to store no output.
        environ: environment variables for commands, beside those of ``environment``, which contain no keys.
        sandbox: ``required`` confines commands to ``root``, without network. ``auto`` confines them if possible, and
            the tool's description states the result. ``off`` does not confine them. ``bubblewrap``, ``landlock`` and
            ``seatbelt`` require this one.
        readable: further directories that confined commands may read.
        network: ``ask`` gives ``Bash`` a parameter ``network``, with which a confined command may use the network if
            the user approves this call. ``never``: no confined command may.

    Raises:
        ConfigError: an argument is not valid, or the sandbox is required but not possible here.
    """
    if not all(isfinite(one) and one > 0 for one in (timeout, longest)):
        raise ConfigError("timeout and longest are seconds, more than 0")
    if timeout > longest:
        raise ConfigError(f"timeout is {timeout:g} s, and longest allows {longest:g} s at most")
    if shown < LEAST_SHOWN:
        raise ConfigError(f"shown is a number of characters, {LEAST_SHOWN} or more")
    shell = Shell(root, shown, output_folder, environ or {}, sandbox, readable)
    name = Path(shell.program.path).name
    asks = shell.sandbox.confined and network == "ask"
    rights = "It is not confined: it may do what this program's user may."
    if shell.sandbox.confined:
        rights = "It can write in that directory only, and has no network"
        rights += " unless network is true, about which the user is asked." if asks else "."
    description = (
        f"Run a shell command ({name}) in the working directory. Gives what it printed, output and errors as one text, "
        "and its exit code. Each command begins in that directory anew: cd and variables don't last. It can't ask for "
        f"input. It ends after {timeout:g} seconds unless timeout says otherwise, with {longest:g} at most. "
        f"{rights}"
    )
    usual = timeout

    def check(limit: float | None) -> None:
        if limit is not None and not 0 < limit <= longest:
            raise ToolError(f"timeout is in seconds, more than 0 and at most {longest:g}")

    def preview_command(
        command: str,
        timeout: float | None,
        run_in_background: bool,
        context: ToolContext[Any],
        network: bool = False,
    ) -> Preview:
        check(timeout)
        shell.check(command)
        if run_in_background:
            how = "in the background" + (f" for at most {timeout:g} s" if timeout is not None else "")
        else:
            how = f"for at most {usual if timeout is None else timeout:g} s"
        confined = shell.confine(context.access, network=network).describe()
        return Preview(command, sort="command", note=f"in {format_path(str(shell.root))}, {how}, {confined}")

    def run_command(
        command: str, context: ToolContext[Any], timeout: float | None, run_in_background: bool, *, network: bool
    ) -> str:
        check(timeout)
        if network and "network" not in context.access.granted:
            raise ToolError("nobody has approved the network for this command")
        if run_in_background:
            return shell.start(command, timeout, context, network=network)
        return shell.run(command, usual if timeout is None else timeout, context, network=network)

    options: ToolOptions = {"approval": True, "command": "command", "preview": preview_command}
    bash: Tool[..., Any]
    if asks:
        options["asks_with"] = ("network",)

        @tool(name="Bash", description=description, **options)
        def bash_asking(
            command: Annotated[str, "The command."],
            context: ToolContext[Any],
            timeout: Annotated[float | None, "Seconds that it may take."] = None,
            run_in_background: Annotated[bool, BACKGROUND] = False,
            network: Annotated[bool, "Let it use the network, if the user agrees."] = False,
        ) -> str:
            return run_command(command, context, timeout, run_in_background, network=network)

        bash = bash_asking
    else:

        @tool(name="Bash", description=description, **options)
        def bash_alone(
            command: Annotated[str, "The command."],
            context: ToolContext[Any],
            timeout: Annotated[float | None, "Seconds that it may take."] = None,
            run_in_background: Annotated[bool, BACKGROUND] = False,
        ) -> str:
            return run_command(command, context, timeout, run_in_background, network=False)

        bash = bash_alone

    @tool(name="BashOutput", read_only=True, polls=True)
    def bash_output(
        id: Annotated[str, "What Bash named the command, such as shell-1."],
        context: ToolContext[Any],
        wait: Annotated[float, "Seconds to wait for its end first, at most 60."] = 0,
    ) -> str:
        """Read what a command in the background has printed since the last time, and whether it still runs."""
        if not 0 <= wait <= LONGEST_WAIT:
            raise ToolError(f"wait is in seconds, at most {LONGEST_WAIT:g}")
        job = shell.job(id)
        job.wait(wait, context)
        return job.read()

    def preview_end(id: str) -> Preview:
        job = shell.job(id)
        running = f"running for {time.monotonic() - job.command.begun:.0f} s"
        status = "which has ended already" if job.ended.is_set() else running
        return Preview(job.text, sort="command", note=f"ends {id}, in {format_path(str(shell.root))}, {status}")

    @tool(name="KillShell", preview=preview_end)
    def kill_shell(id: Annotated[str, "What Bash named the command, such as shell-1."]) -> str:
        """End a command in the background with all its processes."""
        job = shell.job(id)
        job.command.end("KillShell ended it")
        job.wait(2 * LATE)
        return job.read()

    bash.confinement = shell.sandbox.describe()
    made = ShellTools((bash, bash_output, kill_shell))
    made._shell = shell
    return made


def format_result(command: Command, text: str, note: str, confined: SandboxedCommand) -> str:
    """Return the output, followed by a line with the command's status and notes on it."""
    gap = "" if not text or text.endswith("\n") else "\n"
    refused = confined.refused(text) if command.code else ""
    return f"{text}{gap}{command.report('; '.join(part for part in (note, refused) if part))}"
