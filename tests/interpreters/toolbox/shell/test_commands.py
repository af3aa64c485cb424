"""``Bash`` with real processes: what it tells, what it keeps, and that nothing of a command is left."""

from __future__ import annotations

import asyncio
import gc
import marshal
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError
from interpreters import Agent, AsyncAgent, ToolContext, ToolError, fakes
from interpreters.toolbox import ShellTools, shell_tools
from interpreters.toolbox.shell import _command as running
from interpreters.toolbox.shell._command import Command
from interpreters.toolbox.shell._output import CommandOutput
from interpreters.tools.context import ToolCancelled
from runtime.children import supervised_command, supervisor as keeper

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="found by /proc, which only Linux has")

ROOT = Path(__file__).resolve().parents[4]

_sleeps = iter(range(1, 1_000_000))


def unique_sleep() -> str:
    """A program that runs for days and that nobody else runs, to be found by its words."""
    return f"sleep {800_000 + os.getpid()}.{next(_sleeps)}"


def left(words: str) -> list[str]:
    """The processes that have these words among theirs."""
    listed = subprocess.run(["ps", "-A", "-o", "stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if words in line and line[0] != "Z"]


def runs(words: str) -> bool:
    """Whether the program itself runs, and not only the shell that is to start it."""
    return any("bash" not in line for line in left(words))


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that has to come; the test's own time limit says that it doesn't."""
    while not holds():
        time.sleep(0.02)


class Box:
    """The tools of one directory, called by name."""

    def __init__(self, tools: ShellTools, root: Path | None = None) -> None:
        self.tools = tools
        self.root = root or Path()
        self.by_name = {tool.spec.name: tool for tool in tools}
        self.progress: list[str] = []

    def __call__(self, command: str, **arguments: Any) -> str:
        """Run a command; an error comes back as its text."""
        return self.call("Bash", command=command, **arguments)

    def call(self, name: str, **arguments: Any) -> str:
        try:
            return self.by_name[name].call(arguments, ToolContext(None, report=self.progress.append))
        except ToolError as error:
            return f"Error: {error}"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    root, kept = tmp_path / "desk", tmp_path / "kept"
    root.mkdir()
    kept.mkdir()
    with shell_tools(root, output_folder=kept, sandbox="off") as tools:
        yield Box(tools, root)


@pytest.fixture
def late(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time jumps by an hour for us once there is a file of the name ``ready``, so that a limit is over just then."""

    class Clock:
        sleep = staticmethod(time.sleep)

        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + 3600 * (box.root / "ready").exists()

    monkeypatch.setattr(running, "time", Clock)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE", 60.0)


@pytest.fixture
def soon_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE", 0.1)


# ------------------------------------------------------------------------------------------------------ what is told


def test_a_command_tells_what_it_printed_in_its_order_and_how_it_ended(box: Box) -> None:
    told = box("echo one; echo two >&2; echo three; exit 3")

    assert re.fullmatch(r"one\ntwo\nthree\n\[exit code 3, (under 1|\d+\.\d) s\]", told)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "under 1 s"), (0.99, "under 1 s"), (1.0, "1.0 s"), (75.25, "75.2 s")]
)
def test_what_is_short_is_told_alike_each_time(tmp_path: Path, seconds: float, told: str) -> None:
    """A rehearsal compares results, and a model that repeats itself is to be seen to."""
    command = Command(["/bin/sh", "-c", "exit 2"], {}, tmp_path, CommandOutput(100, None))
    command.run(None, None)
    command.seconds = seconds

    assert command.report() == f"[exit code 2, {told}]"


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("true", "[exit code 0, "),
        ("printf x", "x\n[exit code 0, "),
        ("kill -9 $$", "[ended by SIGKILL, "),
        ("kill -TERM $$", "[ended by SIGTERM, "),
        ("kill -35 $$", "[ended by signal 35, "),
        ("no_such_program_here", ""),
        ("pwd", "{root}\n[exit code 0, "),
        ("cd /; pwd", "/\n[exit code 0, "),
        ("-x", ""),
        ("printf 'a\\x1b[31mb\\xff\\u202e'", "a\\x1b[31mb\\xff\\u202e\n["),
        ("printf 'a\\r\\nb'", "a\nb\n["),
    ],
)
def test_what_is_told(box: Box, tmp_path: Path, command: str, begins: str) -> None:
    """Exit codes and signals; a directory that is not kept; what would steer a terminal is written out."""
    assert box(command).startswith(begins.format(root=tmp_path / "desk"))


@pytest.mark.parametrize("command", ["cat", "read line; echo got:$line; test -t 0 || exec 3</dev/tty"])
def test_a_command_that_asks_for_input_gets_none_and_ends(box: Box, command: str) -> None:
    told = box(command)

    assert "[exit code " in told
    assert "/dev/tty" not in command or "No such device" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": " \n"}, "empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "echo \ud800"}, "surrogate"),
        ({"command": "true", "timeout": 0}, "seconds, more than 0 and at most 600"),
        ({"command": "true", "timeout": 120_000}, "seconds, more than 0 and at most 600"),
        ({"command": "x" * 3_000_000}, "can't be started: Argument list too long"),
    ],
)
def test_what_is_no_command_is_refused(box: Box, arguments: dict[str, Any], said: str) -> None:
    assert said in box.call("Bash", **arguments)


def test_a_directory_that_has_gone_is_told(box: Box, tmp_path: Path) -> None:
    (tmp_path / "desk").rmdir()

    assert "can't be started in" in box("true")


def test_the_environment_holds_no_keys(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allow list, and what the program gives."""
    hidden = (
        "OPENAI_API_KEY HF_TOKEN AWS_SECRET_ACCESS_KEY HTTPS_PROXY BASH_ENV LD_PRELOAD PYTHONPATH SSH_AUTH_SOCK MY_OWN "
        "COGSTEP_X XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS"
    )
    for name in hidden.split():
        monkeypatch.setenv(name, "not-for-you")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("GOPATH", "relative")
    given = Box(shell_tools(tmp_path, sandbox="off", environ={"MY_OWN": "given", "TERM": "vt100"}))

    told = given("env")

    assert "not-for-you" not in told
    assert "not-for-you" not in box("env; cat /proc/$PPID/environ 2>/dev/null")
    assert {"MY_OWN=given", "TERM=vt100", "LC_TIME=C", "JAVA_HOME=/opt/java"} <= set(told.splitlines())
    assert "GOPATH" not in told


def test_progress_is_told_while_it_runs(box: Box, tmp_path: Path) -> None:
    """The command waits for a file that is made when its first line is told."""

    def report(text: str) -> None:
        pieces.append(text)
        (tmp_path / "desk" / "go").touch()

    pieces: list[str] = []
    context = ToolContext(None, report=report)

    box.by_name["Bash"].call({"command": "echo one; until [ -e go ]; do sleep 0.05; done; echo two >&2"}, context)

    assert pieces[0] == "one\n"
    assert "".join(pieces) == "one\ntwo\n"


# ------------------------------------------------------------------------------------------------------- large output


def test_100_MB_are_kept_whole_in_a_file_and_memory_stays_small(box: Box, tmp_path: Path) -> None:
    box("true")
    tracemalloc.start()
    try:
        told = box("echo first; yes 0123456789abcde | head -c 100000000; echo last")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (file,) = (tmp_path / "kept").iterdir()

    assert most < 4_000_000
    assert len(told) < 31_000
    assert told.startswith("first\n0123456789abcde\n")
    assert "last\n[exit code 0, " in told
    assert "of 100,000,011 bytes are left out here ...]" in told
    assert f"; all of it is in the file {file}: read parts of that, as with sed" in told.splitlines()[-1]
    assert (file.stat().st_size, stat.S_IMODE(file.stat().st_mode)) == (100_000_011, 0o600)
    assert all(len(piece) < 20_000 for piece in box.progress)


def test_without_a_folder_the_middle_is_told_as_lost(tmp_path: Path) -> None:
    box = Box(shell_tools(tmp_path, sandbox="off", shown=100))

    told = box("seq 1000")

    assert "bytes are left out here ...]" in told
    assert "; what is left out is not kept: to see it, run it again" in told.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------ the end


def test_a_time_limit_keeps_what_was_printed(box: Box, late: None, patient: None) -> None:
    sleep = unique_sleep()

    told = box(f"echo before; touch ready; {sleep}", timeout=500)

    assert told.startswith("Error: before\n[stopped, since it ran longer than 500 s, ended by SIGTERM, ")
    assert not left(sleep)


def test_what_ignores_SIGTERM_is_killed(box: Box, late: None, soon_killed: None) -> None:
    sleep = unique_sleep()

    told = box(f"trap '' TERM HUP INT; touch ready; {sleep}; {sleep}", timeout=500)

    assert "ended by SIGKILL" in told
    assert not left(sleep)


LEFT = {
    "a child that holds the pipe": "{sleep} & echo done",
    "a child without a parent": "({sleep} &) ; echo done",
    "a session of its own": "setsid {sleep} & echo done",
    "a daemon": "(setsid sh -c 'cd /; {sleep} <&- >&- 2>&- & exit 0' &) ; echo done",
    "one that ignores signals": "(trap '' TERM HUP; nohup {sleep} >/dev/null 2>&1 &) ; echo done",
    "one that is stopped": "{sleep} & kill -STOP $! ; echo done",
    "one with an empty environment": "env -i setsid {sleep} & echo done",
    "one that goes on as another one all the time": (
        "f() {{ trap '' TERM; sleep 0.02; setsid bash -c \"$(declare -f f); f\" {sleep} & exit; }}; "
        "f & sleep 0.2; echo done"
    ),
    "many": "for i in $(seq 60); do (setsid {sleep} &) ; done; echo done",
}


@LINUX
@pytest.mark.parametrize("command", LEFT.values(), ids=LEFT.keys())
def test_what_outlives_its_command_is_found_and_ended(box: Box, soon_killed: None, command: str) -> None:
    """Whoever forks, calls ``setsid`` or loses its parent; the model is told."""
    sleep = unique_sleep()

    told = box(command.format(sleep=sleep))

    assert told.startswith("done\n[exit code 0, ")
    assert "; what it left running was ended: " in told
    assert command is not LEFT["many"] or "more; run in the background what is to go on" in told
    assert not left(sleep)


def test_what_ends_by_itself_shortly_after_its_command_is_waited_for(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LINGER", 60.0)
    told = box("(sleep 0.1; echo late) & echo early")

    assert told.startswith("early\nlate\n[exit code 0, ")
    assert "left running" not in told


@LINUX
def test_a_command_that_kills_its_keeper_is_ended_all_the_same(box: Box) -> None:
    sleep = unique_sleep()

    told = box(f"echo before; setsid {sleep} & kill -9 $PPID; {sleep}")

    assert told.startswith("before\n[")
    assert "the process that kept it was killed, and all of it was ended]" in told
    assert not left(sleep)


@LINUX
def test_a_command_that_stops_its_keeper_is_ended_all_the_same(
    box: Box, late: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LATE", 0.3)
    sleep = unique_sleep()

    told = box(f"setsid {sleep} & kill -STOP $PPID; touch ready; {sleep}", timeout=500)

    assert "the process that kept it was killed" in told
    assert not left(sleep)


def test_a_cancelled_call_ends_its_command(box: Box, soon_killed: None) -> None:
    sleep = unique_sleep()
    context = ToolContext(None)

    def cancel() -> None:
        until(lambda: runs(sleep))
        context.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(ToolCancelled):
        box.by_name["Bash"].call({"command": sleep}, context)

    assert not left(sleep)


def test_an_interrupt_ends_the_command(box: Box) -> None:
    """Ctrl-C where a tool is called on the main thread."""
    sleep = unique_sleep()

    def interrupt() -> None:
        until(lambda: runs(sleep))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        box(f"trap '' INT TERM; {sleep}")

    assert not left(sleep)


def test_an_interrupt_of_a_turn_ends_its_command(box: Box) -> None:
    """Ctrl-C in a program that goes on: the tool is on a thread, and nobody waits for it any more."""
    sleep = unique_sleep()

    def interrupt() -> None:
        until(lambda: runs(sleep))
        os.kill(os.getpid(), signal.SIGINT)

    with Agent(**agent_options(box.tools, f"setsid {sleep} & {sleep}")) as agent:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            agent.run("go")

        until(lambda: not left(sleep))


def test_a_keeper_is_also_started_where_its_code_can_not_be_had(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_command, "CODE", b"")
    sleep = unique_sleep()

    assert box(f"echo x; {sleep} & true").startswith("x\n[exit code 0, ")
    assert not left(sleep)


# ------------------------------------------------------------------------------------------------ other systems, races


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper as it is on a system that knows neither ``/proc`` nor who takes orphans."""
    source = Path(keeper.__file__).read_text("utf-8")
    assert source.count('sys.platform == "linux"') == 1
    code = compile(source.replace('sys.platform == "linux"', "False"), "keeper", "exec")
    monkeypatch.setattr(supervised_command, "CODE", marshal.dumps([("keeper", code)]))
    monkeypatch.setattr(keeper, "LINUX", False)


@pytest.mark.slow
def test_elsewhere_the_group_is_ended(box: Box, elsewhere: None, soon_killed: None) -> None:
    """What has not left the command's group: children, also those without a parent, that ignore SIGTERM."""
    sleep = unique_sleep()

    told = box(f"({sleep} &); trap '' TERM; {sleep} & echo done")

    assert told.startswith("done\n[exit code 0, ")
    assert "what it left running was ended: of no known name" in told
    assert not left(sleep)
    assert box("echo x").startswith("x\n[exit code 0, ")


def test_elsewhere_a_time_limit_holds(box: Box, elsewhere: None, late: None, patient: None) -> None:
    sleep = unique_sleep()

    assert "ended by SIGTERM" in box(f"touch ready; {sleep}", timeout=500)
    assert not left(sleep)


def test_elsewhere_the_group_of_a_killed_keeper_is_ended(box: Box, elsewhere: None) -> None:
    sleep = unique_sleep()

    told = box(f"echo before; sleep 0.5; kill -9 $PPID; {sleep}")  # it is to say first which group it keeps

    assert "the process that kept it was killed" in told
    until(lambda: not left(sleep))


@LINUX
def test_a_signal_reaches_only_the_process_that_was_found() -> None:
    """Not who has its number by now."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        (found,) = (one for one in keeper.processes() if one.number == process.pid)
        assert found.label == f"sleep ({process.pid})"
        keeper.ProcessInfo(found.number, found.parent, found.session, "0", found.name).send(signal.SIGKILL)
        found.send(0)
        assert process.poll() is None
        found.send(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    found.send(signal.SIGKILL)


def test_what_can_not_be_ended_is_told(box: Box, tmp_path: Path) -> None:
    """Said by a keeper of ours in place of the real one: another user's process is needed for it else."""
    command = Command(["/bin/sh", "-c", "true"], {}, tmp_path, CommandOutput(100, None))
    command._hear(b'{"survived": ["sudo (7)", "ev\\u001bil (8)"]}\n')
    command.run(None, None)

    assert command.over
    assert command.report().endswith(r"; these processes can't be ended: sudo (7), ev\x1bil (8)]")
    command.end("too late")
    assert not command.step(0)
    assert "too late" not in command.report()


def test_an_interrupt_while_it_starts_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a process nor a descriptor."""
    sleep, real = unique_sleep(), Command._send

    def interrupted(self: Command, data: bytes) -> None:
        real(self, data)
        if len(data) > 1:
            raise KeyboardInterrupt

    def not_started(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = os.listdir("/dev/fd")
    with monkeypatch.context() as patched, shell_tools(tmp_path, sandbox="off") as tools:
        patched.setattr(Command, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tools[0].call({"command": sleep}, ToolContext(None))
        patched.setattr(running, "SupervisedCommand", not_started)
        with pytest.raises(KeyboardInterrupt):
            tools[0].call({"command": sleep}, ToolContext(None))

    assert not left(sleep)
    assert len(os.listdir("/dev/fd")) == len(before)


@pytest.mark.parametrize("background", [False, True])
def test_a_command_that_begins_while_the_shell_closes_is_ended(
    box: Box, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    sleep, begin = unique_sleep(), Command.__init__

    def closing(self: Command, *arguments: Any) -> None:
        begin(self, *arguments)
        box.tools.close()

    monkeypatch.setattr(Command, "__init__", closing)
    told = box(sleep, run_in_background=background)

    if background:
        told = box.call("BashOutput", id="shell-1", wait=60)
    assert "since the shell was closed" in told
    assert not left(sleep)


# --------------------------------------------------------------------------------------------------------- background


def test_only_the_output_of_the_background_is_polled(box: Box) -> None:
    """A model that waits for a command may read the same status again and again."""
    assert [name for name, one in box.by_name.items() if one.spec.polls] == ["BashOutput"]


def test_a_command_in_the_background_is_read_and_killed(box: Box, tmp_path: Path, patient: None) -> None:
    """Reading gives what is new; its file holds all."""
    sleep = unique_sleep()

    told = box(f"echo one; until [ -e go ]; do sleep 0.05; done; echo two; {sleep}", run_in_background=True)
    assert "in the background as shell-1" in told
    (file,) = (tmp_path / "kept").iterdir()
    assert str(file) in told
    until(lambda: file.read_text() == "one\n")
    assert box.call("BashOutput", id="shell-1").startswith("one\n[it is still running, after ")
    assert box.call("BashOutput", id="shell-1").startswith("[it is still running")

    (tmp_path / "desk" / "go").touch()
    until(lambda: runs(sleep))
    told = box.call("KillShell", id="shell-1")
    assert told.startswith("two\n[stopped, since KillShell ended it, ended by SIGTERM, ")
    assert not left(sleep)
    assert box.call("KillShell", id="shell-1").startswith("[stopped, since KillShell ended it")
    assert file.read_text() == "one\ntwo\n"


def test_one_may_wait_for_the_end(box: Box) -> None:
    box("sleep 0.2; printf 'caf\\xc3\\xa9'; exit 7", run_in_background=True)

    assert box.call("BashOutput", id="shell-1", wait=60).startswith("café\n[exit code 7, ")
    assert "at most 60" in box.call("BashOutput", id="shell-1", wait=61)


def test_waiting_is_left_when_the_call_is_cancelled(box: Box) -> None:
    box(unique_sleep(), run_in_background=True)
    context = ToolContext(None)
    context.begin()
    context.cancel()

    with pytest.raises(ToolCancelled):
        box.by_name["BashOutput"].function(id="shell-1", context=context, wait=60)


def test_a_time_limit_holds_in_the_background_too(box: Box) -> None:
    box(unique_sleep(), run_in_background=True, timeout=0.1)

    assert "it ran longer than 0.1 s" in box.call("BashOutput", id="shell-1", wait=60)


@LINUX
def test_what_a_command_in_the_background_leaves_is_ended_with_it(box: Box, soon_killed: None) -> None:
    sleep = unique_sleep()

    box(f"setsid {sleep} & exit 0", run_in_background=True)

    assert "what it left running was ended" in box.call("BashOutput", id="shell-1", wait=60)
    assert not left(sleep)


def test_names_are_known_or_refused_and_room_is_bounded(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreters.toolbox.shell.tools.AT_ONCE", 2)
    monkeypatch.setattr("interpreters.toolbox.shell.tools.REMEMBERED", 1)
    assert "no command runs in the background as 'x'; known are: none was started" in box.call("BashOutput", id="x")

    for _ in range(2):
        box(unique_sleep(), run_in_background=True)
    assert "end one first: shell-1, shell-2" in box(unique_sleep(), run_in_background=True)

    box.call("KillShell", id="shell-1")
    box.call("KillShell", id="shell-2")
    box("true", run_in_background=True)
    assert "known are: shell-2, shell-3" in box.call("KillShell", id="shell-1")


# -------------------------------------------------------------------------------------------------------------- closing


def test_closing_ends_everything_and_the_tools_refuse(box: Box) -> None:
    sleep, other = unique_sleep(), unique_sleep()
    box(sleep, run_in_background=True)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(box(other)))
    thread.start()
    until(lambda: runs(sleep) and runs(other))

    box.tools.close()
    box.tools.close()
    thread.join()

    assert not left(sleep)
    assert not left(other)
    assert "since the shell was closed" in answers[0]
    assert "since the shell was closed" in box.call("BashOutput", id="shell-1")
    assert "was closed; no command runs" in box("true")


def test_tools_that_are_gone_end_their_commands(tmp_path: Path) -> None:
    sleep = unique_sleep()
    tools = shell_tools(tmp_path, sandbox="off")
    tools[0].call({"command": sleep, "run_in_background": True}, ToolContext(None))
    until(lambda: runs(sleep))

    del tools
    gc.collect()

    until(lambda: not left(sleep))


AGENT = """
import sys
from interpreters import Agent, fakes
from interpreters.toolbox import shell_tools

tools = shell_tools(".", sandbox="off")
calls = [
    fakes.call("Bash", command=sys.argv[1] + " & " + "setsid " + sys.argv[1] + " & wait", run_in_background=True),
    fakes.call("Bash", command="(setsid " + sys.argv[2] + " &); " + sys.argv[2]),
    "done",
]
with Agent(fakes.ScriptedModel(calls), tools=tools, approve=lambda request: True) as agent:
    agent.run("go")
"""


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_that_ends_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """``kill -9`` of the agent's process too."""
    sleep, other = unique_sleep(), unique_sleep()
    command = [sys.executable, "-c", AGENT, sleep, other]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL) as program:
        until(lambda: runs(sleep) and runs(other))
        program.send_signal(number)

    until(lambda: not left(sleep) and not left(other))


def agent_options(tools: ShellTools, *commands: str) -> dict[str, Any]:
    replies = [fakes.call("Bash", command=command) for command in commands]
    return {"model": fakes.ScriptedModel(replies), "tools": tools, "approve": lambda request: True}


def test_closing_the_agent_ends_what_runs(box: Box) -> None:
    sleep = unique_sleep()
    agent = Agent(**agent_options(box.tools, sleep))
    thread = threading.Thread(target=lambda: agent.run("go"))
    thread.start()
    until(lambda: runs(sleep))

    agent.close()
    thread.join()

    assert not left(sleep)


def test_an_event_loop_goes_on_and_a_cancelled_turn_ends_its_command(box: Box, tmp_path: Path) -> None:
    sleep = unique_sleep()

    async def main() -> str:
        waits = "echo up > up; until [ -e go ]; do sleep 0.05; done; echo went"
        async with AsyncAgent(**agent_options(box.tools, waits, sleep)) as agent:
            turn = asyncio.create_task(agent.run("go"))
            while not (tmp_path / "desk" / "up").exists():
                await asyncio.sleep(0.02)
            (tmp_path / "desk" / "go").touch()
            while not left(sleep):
                await asyncio.sleep(0.02)
            agent.cancel()
            result = await turn
        return str(result.calls[0].content)

    assert asyncio.run(main()).startswith("went\n[exit code 0, ")
    until(lambda: not left(sleep))


@LINUX
@pytest.mark.slow
def test_many_commands_leave_no_descriptor_no_process_and_no_thread(box: Box) -> None:
    def held() -> tuple[int, int, int]:
        parents = subprocess.run(["ps", "-A", "-o", "ppid="], capture_output=True, text=True, check=True).stdout.split()
        threads = [thread for thread in threading.enumerate() if thread.name == "cogstep shell"]
        return len(os.listdir("/proc/self/fd")), parents.count(str(os.getpid())), len(threads)

    box("true")
    box("true", run_in_background=True)
    box.call("KillShell", id="shell-1")
    until(lambda: held()[2] == 0)
    gc.collect()  # what tests before this one have left holds directories
    before = held()

    for number in range(40):
        assert "exit code 3" in box("(exit 3)")
        box("echo x; sleep 100", run_in_background=True)
        box.call("KillShell", id=f"shell-{number + 2}")
        box("sleep 100", timeout=0.001)

    until(lambda: held()[2] == 0)
    assert held() == before


# --------------------------------------------------------------------------------------------------------- the options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"root": "nowhere"}, "need a directory"),
        ({"output_folder": "nowhere"}, "output_folder has to be a directory"),
        ({"readable": ["nowhere"]}, "readable has to name directories"),
        ({"timeout": 0}, "more than 0"),
        ({"longest": float("nan")}, "more than 0"),
        ({"timeout": 700}, "longest allows 600 s"),
        ({"shown": 99}, "100 or more"),
        ({"sandbox": "maybe"}, "sandbox"),
        ({"environ": {"A=B": "x"}}, "can't be a variable"),
        ({"environ": {"A": "x\0"}}, "can't be a variable"),
    ],
)
def test_what_an_option_can_not_be(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        shell_tools(**{"root": tmp_path, "sandbox": "off", **options})


def test_a_system_without_a_shell_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="bash or sh"):
        shell_tools(tmp_path)


def test_sh_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "desk").mkdir()

    with shell_tools(tmp_path / "desk", sandbox="off") as tools:
        assert "(sh)" in tools[0].spec.description
        assert Box(tools)("-x; echo $0").splitlines()[1] == str(tmp_path / "sh")


def test_policy_knows_what_the_tools_do(box: Box) -> None:
    flags = {tool.spec.name: (tool.spec.approval, tool.spec.read_only, tool.spec.idempotent) for tool in box.tools}

    assert flags == {
        "Bash": (True, False, False),
        "BashOutput": (False, True, False),
        "KillShell": (False, False, False),
    }
    assert "not confined" in box.by_name["Bash"].spec.description


def test_a_forked_process_is_not_its_parent(box: Box) -> None:
    """It neither ends what its parent runs, nor runs anything itself."""
    sleep = unique_sleep()
    box(sleep, run_in_background=True)
    until(lambda: runs(sleep))
    script = (
        "import os, sys, gc\n"
        "from interpreters import ToolContext, ToolError\n"
        "from interpreters.toolbox import shell_tools\n"
        "tools = shell_tools('.', sandbox='off')\n"
        "tools[0].call({'command': sys.argv[1], 'run_in_background': True}, ToolContext(None))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    tools.close()\n"
        "    try:\n"
        "        tools[0].call({'command': 'true'}, ToolContext(None))\n"
        "    except ToolError:\n"
        "        sys.exit(5)\n"
        "    sys.exit(6)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(tools[1].call({'id': 'shell-1'}, ToolContext(None)))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, unique_sleep()],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith("5\n[it is still running, "), done.stderr


def test_a_command_that_puts_a_link_in_place_of_the_folder_of_outputs_moves_no_output(tmp_path: Path) -> None:
    """What a confined command prints would be written wherever it likes, outside of its directory."""
    for name in ("outputs", "elsewhere"):
        (tmp_path / name).mkdir()

    with shell_tools(tmp_path, output_folder=tmp_path / "outputs", sandbox="off", shown=100) as tools:
        tools[0].call({"command": "mv outputs old; ln -s elsewhere outputs; seq 1000"}, ToolContext(None))

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(list((tmp_path / "old").iterdir())) == 1
