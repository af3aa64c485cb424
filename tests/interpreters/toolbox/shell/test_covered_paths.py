"""Denied paths, and what is above them: no command moves them, follows a link to elsewhere, or is too long."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from cognition import AccessRules, ConfigError, Policy, Rule, ToolCall
from interpreters import ToolContext
from interpreters.toolbox import shell_tools
from interpreters.toolbox.shell import _bubblewrap, _landlock
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.environment import ShellProgram
from interpreters.toolbox.shell.sandbox import Choice, choose_sandbox
from runtime.children import in_memory
from tests.interpreters.toolbox.shell.sandboxes import needs

SHELL = ShellProgram("/bin/sh", ())
MILK = "milk-4711"
CALL = ToolCall("1", "Bash", '{"command": "true"}')


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A root with denied files in folders, and files outside of it."""
    made = tmp_path / "desk"
    for folder in ("config/secrets", "config/deep/er", "sub", "../outside/er"):
        (made / folder).mkdir(parents=True)
    for name in ("config/secrets/key", "config/.env", "config/deep/er/x.pem", "../outside/er/y"):
        (made / name).write_text(f"{MILK}\n")
    (made / "config/go.sum").write_text("as it was\n")
    (made / "sub/deploy").write_text(f"#!/bin/sh\necho {MILK}\n")
    (made / "sub/deploy").chmod(0o755)
    return made


RULES = ("*(config/secrets/**)", "Read(config/.env)", "Write(config/go.sum)", "*(**/*.pem)", "Bash(sub/deploy:*)")
POLICY = Policy(tuple(Rule("deny", text) for text in RULES))


def said(desk: Path, wall: Choice, *commands: str, policy: Policy = POLICY, **options: object) -> list[str]:
    """Return the outputs of commands in one shell, whose command lines policy doesn't look at."""
    with shell_tools(desk, sandbox=wall, **options) as tools:  # type: ignore[arg-type]
        access = policy.access_rules(CALL, {tools[0].spec.name: tools[0].spec}) if policy else AccessRules()
        return [tools[0].call({"command": one}, ToolContext(None, access=access)) for one in commands]


MOVING = """
mv config moved; cat moved/secrets/key moved/.env
mv config/deep deeper; cat deeper/er/x.pem
mv config/deep/er er; cat er/x.pem
mv sub moved2; moved2/deploy
python3 -c 'import os; os.rename("config", "moved3")'; cat moved3/.env
mkdir own; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b"own", -100, b"config", 2)'; cat own/.env
rm -rf config; mkdir config; echo EVIL > config/go.sum; echo EVIL > config/.env
ln -sfn own config; mv -T own config
"""


def test_folders_above_denied_paths_stay_where_they_are(desk: Path, wall: Choice) -> None:
    """What one command moves, the next one would find under a name that no rule denies."""
    lines = [line for line in MOVING.splitlines() if line]
    told = said(desk, wall, *lines, "cat */secrets/key */.env */er/x.pem */*/er/x.pem; */deploy")

    assert MILK not in "".join(told)
    assert (desk / "config/go.sum").read_text() == "as it was\n"
    assert (desk / "config/.env").read_text() == (desk / "config/secrets/key").read_text() == f"{MILK}\n"


def test_ordinary_work_goes_on_in_these_folders(desk: Path) -> None:
    needs("bubblewrap")
    if shutil.which("git", path="/usr/bin") is None:
        pytest.skip("git is not among the system's programs")
    begin = "git init -q . && git config user.name a && git config user.email a@b"
    work = """
    echo one > config/one && echo two > sub/two && mkdir config/new config/deep/new && echo x > config/deep/er/three
    git add config/one config/deep/er/three sub/two && git commit -qm first && git mv config/one config/new/one
    mv config/new/one config/deep/one && git add config/deep/one && rm config/deep/er/three && rmdir config/deep/new
    git commit -qam second; git status --short -uno; git checkout -q HEAD~1 && git log --format=%s; cat config/one
    mv sub/two config/four; sed -i s/two/four/ config/four; chmod 600 config/four; cp config/four sub/four; cat sub/four
    git status --short -uno; ls config config/deep
    """
    policy = Policy((*POLICY.rules, Rule("deny", "Write(.git/hooks/**)")))
    (began, told) = said(desk, "bubblewrap", begin, work, policy=policy)

    assert began.startswith("[exit code 0")
    assert told.partition("[exit")[0].split() == [
        "first", "one", "four", "D", "sub/two", "config:", "deep", "four", "go.sum", "new", "one", "secrets",
        "config/deep:", "er",
    ]  # fmt: skip


def test_what_is_mounted_is_each_path_once(tmp_path: Path) -> None:
    """Those above first, and nothing beyond the root; a readable folder in it can't be moved."""
    root = tmp_path / "root"
    profile = SandboxProfile(
        root,
        readable=(root / "a/out", tmp_path / "more"),
        hidden=(root / "a/b/key", root / "a/b/other", tmp_path / "more/key"),
        read_only=(root / "a/out",),
        programs=(root / "run", Path("/usr/bin/env")),
    )

    assert _bubblewrap.covers(profile, (root / ".venv",)) == {
        root / ".venv": "fix", root / "a/out": "fix", root / "a/b/key": "hide", root / "a/b/other": "hide",
        tmp_path / "more/key": "hide", root / "run": "hide", root / "a": "pin", root / "a/b": "pin",
    }  # fmt: skip
    assert _bubblewrap.covers(SandboxProfile(root)) == {}
    options = _bubblewrap.options(profile)
    assert [one for one in options if one.startswith(f"{root}/")] == []
    assert "/usr/bin/env" in options


def test_too_many_mounts_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bubblewrap, "MOST", 2)
    with pytest.raises(ConfigError, match="rules deny paths in 3 files and folders, and 2 are possible"):
        _bubblewrap.covers(SandboxProfile(tmp_path, hidden=(tmp_path / "a/b/c",)))


# --------------------------------------------------------------------------------------- links that are put there since


def run(words: tuple[str, ...], command: str) -> subprocess.CompletedProcess[str]:
    with in_memory.opened((*words, "/bin/sh", "-c", command)) as (given, descriptors):
        return subprocess.run(
            given, pass_fds=descriptors, capture_output=True, text=True, check=False, timeout=60, stdin=-3, cwd="/"
        )


LINKS = {
    "a folder by a link out of the root while mounts are made": ("config", "/oldroot{outside}", "config/er/new"),
    "a folder by a link": ("config", "{outside}", "config/er/y"),
    "the denied folder": ("config/secrets", "{outside}", "config/secrets"),
    "the denied file": ("config/.env", "/oldroot{outside}/new", "config/.env"),
}


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("field", ["hidden", "read_only", "programs", "readable"])
def test_bubblewrap_follows_no_link_that_is_put_there_meanwhile(desk: Path, kind: str, field: str) -> None:
    """Between the search for denied paths and the start of the command, other commands run. None is made outside."""
    needs("bubblewrap")
    outside = desk.parent / "outside"
    replaced, link, denied = LINKS[kind]
    (desk / replaced).rename(desk / "away")
    (desk / replaced).symlink_to(link.format(outside=outside))
    profile = SandboxProfile(desk, **{field: (desk / denied,)})

    told = run(choose_sandbox("bubblewrap", desk, SHELL).words(profile), "echo ran")

    assert (told.returncode, told.stdout) == (126, "")
    assert told.stderr.startswith("the command can't be confined, and was not run: there is a link in a path"), told
    assert sorted(one.name for one in outside.rglob("*")) == ["er", "y"]


def test_bubblewrap_notices_that_the_root_was_replaced(desk: Path) -> None:
    needs("bubblewrap")
    words = choose_sandbox("bubblewrap", desk, SHELL).words(SandboxProfile(desk, hidden=(desk / "config/.env",)))
    desk.rename(desk.parent / "away")
    desk.symlink_to(desk.parent / "away")

    told = run(words, "echo ran")

    assert (told.returncode, told.stdout) == (126, "")
    assert "there is a link in a path" in told.stderr


def test_bubblewrap_runs_nothing_if_a_path_can_not_be_covered(desk: Path) -> None:
    needs("bubblewrap")
    words = choose_sandbox("bubblewrap", desk, SHELL).words(SandboxProfile(desk, hidden=(desk / "config/.env",)))
    at = words.index(in_memory.BOOT)
    faults = (
        "start._mount = lambda *_: start._fail('no')",
        "start.enter = lambda _: 1 / 0",
        "start.GET_USERNS = 0",
    )
    for fault in faults:
        changed = words[at].replace("start.main()", f"{fault}; start.main()")

        told = run((*words[:at], changed, *words[at + 1 :]), "echo ran; cat config/.env")

        assert (told.returncode, told.stdout) == (126, "")
        assert told.stderr.startswith("the command can't be confined, and was not run: ")


def test_bubblewrap_covers_what_is_still_there(desk: Path) -> None:
    """Also with odd names, and other mounts below."""
    needs("bubblewrap")
    odd = desk / "a \t\\040\n\udcff"
    (odd / "er").mkdir(parents=True)
    for name in ("key", "er/key"):
        (odd / name).write_text(MILK)
    profile = SandboxProfile(
        desk,
        hidden=(odd / "key", odd / "er/key", desk / "gone/key", desk / "config"),
        read_only=(odd, desk / "sub/deploy"),
    )
    command = """
    cat */key */*/key; ls config; sub/deploy; for f in a*/new a*/er/new sub/deploy; do echo x > "$f" || echo no; done
    echo x > sub/new; cat sub/new
    """
    told = run(choose_sandbox("bubblewrap", desk, SHELL).words(profile), command)

    assert told.stdout.split() == [MILK, "no", "no", "no", "x"], told.stderr
    assert (desk / "sub/new").exists()


@pytest.mark.parametrize("where", ["root/out", "root/up/out"])
def test_a_readable_folder_that_became_a_link_opens_nothing(tmp_path: Path, wall: Choice, where: str) -> None:
    """Otherwise the next command could read every file of the machine."""
    (tmp_path / "outside/out").mkdir(parents=True)
    for name in ("outside/key", "outside/out/key"):
        (tmp_path / name).write_text(MILK)
    kept, outside = tmp_path / where, tmp_path / "outside"
    kept.mkdir(parents=True)
    replace = f"mv out o2; ln -s {outside} out; mv up u2; ln -s {outside} up; echo replaced"
    reading = f"cat out/key up/out/key {outside}/key; ls {outside}"

    first, second = said(tmp_path / "root", wall, replace, reading, readable=[kept])

    assert "replaced\n" in first
    assert MILK not in second
    if wall == "landlock":
        assert f"the command can't be confined, and was not run: {kept} has become a link to " in second


SWAPPED = """exec('''
import os
real, seen = os.scandir, []
def scandir(folder):
    seen.append(folder)
    if len(seen) == {nth}:
        os.rename({there!r}, {there!r} + "-away")
        os.symlink({outside!r}, {there!r})
    return real(folder)
os.scandir = scandir
''')"""


def test_landlock_follows_no_link_that_is_put_there_meanwhile(desk: Path) -> None:
    """Of a folder with a denied path below, each entry is granted. It was opened by its path, through such a link."""
    needs("landlock")
    temporary = desk.parent / "temporary"
    temporary.mkdir()
    profile = SandboxProfile(desk, hidden=(desk / "config/er/key",), readable=())
    (desk / "config/er").mkdir()
    (desk / "config/er/key").touch()
    words = _landlock.words(profile, temporary)
    at = words.index(in_memory.BOOT)
    swap = SWAPPED.format(nth=2, there=str(desk / "config"), outside=str(desk.parent / "outside"))
    changed = words[at].replace("start.main()", f"{swap}; start.main()")

    told = run((*words[:at], changed, *words[at + 1 :]), f"cat {desk}/config/er/y; ls {desk}")

    assert MILK not in told.stdout
    assert "config-away" in told.stdout, told.stderr


# --------------------------------------------------------------------------------------- what namespaces don't separate

SHARED = """
import ctypes, json, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(x86, arm, *arguments):
    import platform
    libc.syscall(arm if platform.machine() == "aarch64" else x86, *arguments)
    return ctypes.get_errno()
told = {
    "keyctl": call(250, 219, 0, -3, 0), "add_key": call(248, 217, b"user", b"x", b"y", 1, -3),
    "request_key": call(249, 218, b"user", b"x", None, -3),
    "io_uring": call(425, 425, 4, ctypes.create_string_buffer(256)),
}
for family in (1, 2, 10, 16, 17, 38, 40, 31, 30):
    for sort in (1, 2, 3, 5):
        try:
            socket.socket(family, sort).close()
            told[family] = 0
        except OSError as error:
            told.setdefault(family, error.errno)
print(json.dumps(told))
"""


@pytest.mark.parametrize("network", [False, True])
def test_keys_and_sockets_of_the_machine_are_not_there_in_bubblewrap(desk: Path, *, network: bool) -> None:
    """Namespaces have no keys of their own, and none for ``AF_VSOCK``, which reaches the machine."""
    needs("bubblewrap")
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("python3 is not among the system's programs")
    (desk / "shared.py").write_text(SHARED)
    words = choose_sandbox("bubblewrap", desk, SHELL).words(SandboxProfile(desk, network=network))

    told = json.loads(run(words, "/usr/bin/python3 shared.py").stdout)

    allowed = {name for name, error in told.items() if not error}
    assert {"1", "2", "16"} <= allowed <= {"1", "2", "10", "16"}
    assert {told[name] for name in told.keys() - {"1", "2", "10", "16"}} == {1}


# --------------------------------------------------------------------------------------------------------- many of them


def test_many_denied_files_with_long_names_are_no_long_command(desk: Path, wall: Choice) -> None:
    """The kernel limits the words of a program."""
    deep = desk.joinpath(*["d" * 200] * 16)
    deep.mkdir(parents=True)
    files = tuple(deep / f"{'x' * 200}{number}" for number in range(900))
    for file in files:
        file.write_text(MILK)

    sandbox = choose_sandbox(wall, desk, SHELL)
    told = run(sandbox.words(SandboxProfile(desk, hidden=files)), f"cat {deep}/*7; ls config")

    assert MILK not in told.stdout
    assert told.stdout == "deep\ngo.sum\nsecrets\n", told.stderr[-300:]
