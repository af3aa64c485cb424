"""Commands in the real bubblewrap: what they reach, what they don't, and that nothing of them is left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from interpreters import ToolContext, ToolError
from interpreters.toolbox import shell_tools
from interpreters.toolbox.shell import sandbox
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.environment import ShellProgram
from runtime.children import in_memory
from runtime.children.supervisor import processes
from tests.interpreters.toolbox.shell.sandboxes import needs


@pytest.fixture(autouse=True)
def _needs_bubblewrap() -> None:
    needs("bubblewrap")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("milk")
    (tmp_path / "desk").mkdir()
    return tmp_path / "desk"


def said(desk: Path, command: str) -> str:
    with shell_tools(desk, sandbox="bubblewrap", timeout=20) as tools:
        return tools[0].call({"command": command}, ToolContext(None))


def test_no_other_file_is_there_by_whatever_way(desk: Path) -> None:
    """Absolute, by ``..``, by links of its own, by what ``/proc`` has of processes, and under ``/tmp``."""
    secret = desk.parent / "secret"
    places = [secret, "../secret", "link", f"/proc/self/root{secret}", f"/proc/1/root{secret}", "/proc/1/cwd/../secret"]
    places += ["/etc/shadow", "~/.ssh/id_rsa", f"/proc/{os.getpid()}/environ", "/root/.profile", "/home/*/.profile"]

    told = said(desk, f"ln -s {secret} link; cat {' '.join(map(str, places))} || ls -a ~")

    assert "milk" not in told
    assert told.count("No such file or directory") == len(places)


def test_nothing_else_is_written(desk: Path) -> None:
    told = said(
        desk,
        f"echo new > file; ln -s {desk.parent} up; ln -s {desk.parent}/secret link; "
        "for f in /usr/x /etc/x /x ../x up/x link /proc/self/root/usr/x; do echo x > $f && echo WRITTEN $f; done; "
        "echo y > /tmp/y && cat /tmp/y",
    )

    assert "WRITTEN /" not in told
    assert "y\n[exit code 0, " in told
    assert (desk / "file").read_text() == "new\n"
    assert sorted(path.name for path in desk.parent.iterdir()) == ["desk", "secret"]
    assert not Path("/tmp/y").exists()


def test_it_has_no_rights_by_which_it_could_get_out(desk: Path) -> None:
    """Root has all of them in a namespace of its own, unless they are taken: it mounted ``/usr`` anew, for writing."""
    told = said(
        desk,
        'grep CapEff /proc/self/status; python3 -c "import ctypes; print(ctypes.CDLL(None).mount('
        "b'none', b'/usr', None, 4096 | 32, None))\"; "
        "read x < /proc/sys/kernel/threads-max && (echo $x > /proc/sys/kernel/threads-max) && echo SET; "
        "unshare -Urm sh -c 'mount -o remount,bind,rw /usr && echo MOUNTED; umount /usr && echo UNMOUNTED'",
    )

    assert "CapEff:\t0000000000000000\n" in told
    assert "\n-1\n" in told or "python3: " in told
    assert all(word not in told for word in ("SET", "MOUNTED"))


def test_another_user_than_root_is_confined_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what bubblewrap is told for such a user, and as one where the tests run as root."""
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (place / "desk").mkdir()
        (place / "secret").write_text("milk")
        for path in (place, place / "desk"):
            path.chmod(0o755)
            os.chown(path, user, -1)
        made = sandbox.choose_sandbox("bubblewrap", place / "desk", ShellProgram("/bin/sh", ()))
        command = "cat ../secret; touch /usr/x; echo x > file; grep CapEff /proc/self/status"
        words = (*made.words(SandboxProfile(place / "desk")), "/bin/sh", "-c", command)
        with in_memory.opened(words) as (given, descriptors):
            run = subprocess.run(
                given, pass_fds=descriptors, user=user, capture_output=True, text=True, cwd="/", check=False
            )
        assert run.stdout == "CapEff:\t0000000000000000\n"
        assert run.stderr.count("\n") == 2, run.stderr
        assert (place / "desk/file").read_text() == "x\n"
    finally:
        shutil.rmtree(place)


def test_there_is_no_network(desk: Path) -> None:
    """Neither the world nor this machine's own loopback, nor a socket that has a name and no file, nor names."""
    with socket.create_server(("127.0.0.1", 0)) as here, socket.socket(socket.AF_UNIX) as named:
        named.bind(f"\0cogstep-{os.getpid()}")
        named.listen()
        port = here.getsockname()[1]
        told = said(
            desk,
            f"(exec 3<>/dev/tcp/192.0.2.1/80); (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo REACHED; "
            "cat /proc/net/unix | grep -c cogstep; getent hosts example.com && echo RESOLVED",
        )

    assert "Network is unreachable" in told
    assert "Connection refused" in told
    assert "\n0\n" in told
    assert "REACHED" not in told
    assert "RESOLVED" not in told


def test_it_has_no_terminal_and_no_keys(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-milk")

    told = said(desk, "tty; (exec 3< /dev/tty); env; cat /proc/[0-9]*/environ; ls /dev /proc/self/fd")

    assert told.startswith("not a tty\n")
    assert "/dev/tty: No such device or address" in told
    assert "milk" not in told
    assert "vda" not in told
    assert "\n3\n4\n" not in told  # of descriptors nothing but the three, and the one of the listing itself


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 0", "[exit code 0, "),
        ("exit 255", "[exit code 255, "),
        ("kill -9 $$", "[exit code 137, "),
        ("cat", "[exit code 0, "),
        ("exec > >(sleep 0.1; cat); echo late", "late\n[exit code 0, "),
        ("(sleep 0.1; echo late) & echo soon; exit 3", "soon\nlate\n[exit code 3, "),
        (
            "sleep 1001 & sleep 1002 & exit 4",
            "[what it left running was ended: sleep sleep; run in the background what is to go on after its command]\n"
            "[exit code 4, ",
        ),
    ],
)
def test_how_it_ends(desk: Path, command: str, told: str) -> None:
    """As what is not confined: what it has left may end by itself, and else is ended and named."""
    assert said(desk, command).startswith(told)


def sleepers(seconds: int) -> list[int]:
    names = (one.number for one in processes() if one.name == "sleep")
    return [number for number in names if f"\0{seconds}\0".encode() in _read(f"/proc/{number}/cmdline")]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def gone(seconds: int) -> bool:
    until = time.monotonic() + 10
    while sleepers(seconds) and time.monotonic() < until:
        time.sleep(0.02)
    return not sleepers(seconds)


STUBBORN = (
    "trap '' TERM; (setsid env -i sleep {0} &); (trap '' TERM; exec sleep {0}) & echo up; while :; do sleep 1; done"
)


def test_at_the_time_limit_nothing_is_left(desk: Path) -> None:
    with shell_tools(desk, sandbox="bubblewrap") as tools, pytest.raises(ToolError, match="ran longer than 0"):
        tools[0].call({"command": STUBBORN.format(71001), "timeout": 0.5}, ToolContext(None))

    assert sleepers(71001) == []


def test_what_runs_in_the_background_is_confined_and_ends_with_its_tools(desk: Path) -> None:
    with shell_tools(desk, sandbox="bubblewrap") as (bash, output, kill):
        for _ in range(2):
            bash.call(
                {"command": f"cat ../secret; {STUBBORN.format(71002)}", "run_in_background": True}, ToolContext(None)
            )
        shown = ""
        until = time.monotonic() + 10
        while "up" not in shown and time.monotonic() < until:
            shown += output.call({"id": "shell-1", "wait": 0.1}, ToolContext(None))
        assert "No such file or directory" in shown
        kill.call({"id": "shell-1"}, ToolContext(None))

    assert sleepers(71002) == []


PROGRAM = """
import sys, time
from interpreters import ToolContext
from interpreters.toolbox import shell_tools
tools = shell_tools(sys.argv[1], sandbox="bubblewrap")
tools[0].call({"command": sys.argv[2], "run_in_background": True}, ToolContext(None))
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("both", [False, True])
def test_nothing_outlives_a_program_that_is_killed(desk: Path, *, both: bool) -> None:
    """Not even where its keeper is killed at the same moment."""
    seconds = 71003 + both
    words = [sys.executable, "-c", PROGRAM, str(desk), STUBBORN.format(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4]) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"begun\n"
            until = time.monotonic() + 10
            while len(sleepers(seconds)) < 2 and time.monotonic() < until:
                time.sleep(0.02)
            assert len(sleepers(seconds)) == 2
            keepers = [one.number for one in processes() if one.parent == program.pid] if both else []
        finally:
            program.send_signal(signal.SIGSTOP)
            for number in keepers:
                os.kill(number, signal.SIGKILL)
            program.kill()

    assert gone(seconds)


ODD = ["a space", "-dash", "--", "new\nline", "quo'te\"$x", "\udcff\udcfe", "ünicode", "a" * 200, ":colon", "*"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    for name in ODD:
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a space")
    return tmp_path


@pytest.mark.parametrize("name", [*ODD, "link"], ids=ascii)
def test_directories_may_have_any_name(odd: Path, name: str) -> None:
    assert said(odd / name, 'echo x > f && cat "$PWD/f"').startswith("x\n[exit code 0, ")

    assert (odd / name / "f").read_text() == "x\n"


def test_git_and_python_work_within(desk: Path) -> None:
    if shutil.which("git", path="/usr/bin") is None or shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("git or python3 is not among the system's programs")
    told = said(
        desk,
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first; git log --format=%s; "
        "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
    )

    assert told.startswith(f"first\n{desk}/v\n[exit code 0, ")


def test_what_is_printed_is_kept_and_can_only_be_read(desk: Path) -> None:
    kept = desk.parent / "kept"
    kept.mkdir()
    with shell_tools(desk, sandbox="bubblewrap", output_folder=kept) as tools:
        tools[0].call({"command": "head -c 3000000 /dev/zero | tr '\\0' x"}, ToolContext(None))
        told = tools[0].call({"command": f"wc -c < {kept}/*; touch {kept}/x"}, ToolContext(None))

    assert told.startswith("3000000\n")
    assert "Read-only file system" in told


def test_where_namespaces_are_used_up_it_is_refused_or_told(desk: Path) -> None:
    """By the kernel itself: ``bwrap`` is there, and may not make what it needs."""
    program = (
        "from interpreters.toolbox import shell_tools; from interpreters.toolbox.shell.sandbox import shell_report\n"
        "from interpreters.toolbox.shell import _landlock\n"
        "_landlock.problem = lambda _: 'no Landlock'\n"
        "tools = shell_tools('.'); print(tools.confined, 'It is not confined' in tools[0].spec.description)\n"
        "print(shell_report()[1])\nshell_tools('.', sandbox='required')"
    )
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    words = ["unshare", "-Ur", "sh", "-c", forbid, "sh", sys.executable, "-c", program]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=desk, env=environ)

    assert run.stdout.startswith("False True\n"), run.stderr
    assert "commands not confined: " in run.stdout
    assert "ConfigError: sandbox='required', and commands can't be confined here" in run.stderr
    assert "let this user make namespaces" in run.stderr
