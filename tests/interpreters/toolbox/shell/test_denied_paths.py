"""What a sandbox is given to protect: the files and programs that rules deny, wherever and however they lie there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import AccessRules, Rule
from interpreters import ToolContext, ToolError
from interpreters.toolbox import shell_tools
from interpreters.toolbox.shell import _denied_paths, _denied_programs
from interpreters.toolbox.shell._denied_paths import Denials
from interpreters.toolbox.shell._sandboxed_command import SandboxedCommand
from interpreters.toolbox.shell.sandbox import Choice, Sandbox
from tests.interpreters.toolbox.shell.test_second_wall import wall as wall

MILK = "milk-4711"
TOLD = "3f2d-of-sha512"
PATH = "/usr/bin:/bin"


def rules(*patterns: str) -> tuple[Rule, ...]:
    return tuple(Rule("deny", pattern) for pattern in patterns)


def names(found: list[Rule]) -> list[str]:
    return [rule.tool for rule in found]


def lay(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{MILK}\n")


def script(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {TOLD}\n")
    path.chmod(0o755)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    made = tmp_path / "desk"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system's directories are not searched: that takes a second."""
    monkeypatch.setattr(_denied_programs, "LIBRARIES", ())
    _denied_programs._search_libraries.cache_clear()
    yield
    _denied_programs._search_libraries.cache_clear()


def hidden(denials: Denials, root: Path) -> list[str]:
    """Return the hidden paths, those below the root relative to it."""
    return sorted(
        os.path.relpath(one, root) if one.is_relative_to(root) else str(one) for one in denials.profile.hidden
    )


def run(root: Path, sandbox: Choice, access: AccessRules, *lines: str, readable: tuple[Path, ...] = ()) -> str:
    """Return what the lines print, each a command of its own."""
    with shell_tools(root, sandbox=sandbox, readable=readable) as tools:
        return "".join(tools[0].call({"command": line}, ToolContext(None, access=access)) for line in lines)


# ------------------------------------------------------------------------------------------- what can't be looked at


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Folders that can't be opened, as for an ordinary user: tests may run as root."""
    folders: list[Path] = []
    scandir, stat = os.scandir, os.stat

    def refuse(path: object) -> None:
        if any(Path(str(path)).is_relative_to(one) and str(path) != str(one) for one in folders):
            raise PermissionError(13, "Permission denied", str(path))

    def scan(path: str) -> Any:
        refuse(f"{path}/.x")
        return scandir(path)

    def status(path: Any, **options: Any) -> os.stat_result:
        refuse(path)
        return stat(path, **options)

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(os, "stat", status)
    yield folders
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (AccessRules(rules("*(**/secrets/**)")), ["app"]),
        (AccessRules(rules("Read(app/conf/.env)")), ["app"]),
        (AccessRules(rules("*(docs/secrets/**)")), []),
    ],
)
def test_a_folder_that_can_not_be_opened_is_denied_if_a_rule_may_match_in_it(
    desk: Path, closed: list[Path], access: AccessRules, expected: list[str]
) -> None:
    """The command is of the same user, and can change its mode."""
    lay(desk, "app/conf/.env", "app/secrets/key", "docs/a")
    closed.append(desk / "app")

    denials = Denials(access, desk, (), PATH)

    assert hidden(denials, desk) == expected
    assert names(denials.absent) == ([] if expected else ["*(docs/secrets/**)"])


def test_one_of_another_user_that_can_not_be_entered_is_left_alone(
    desk: Path, closed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can a command enter it or change its mode; and in Landlock no new files could be made beside it."""
    lay(desk, "data/.env")
    closed.append(desk / "data")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    access = AccessRules(rules("*(**/.env)"), programs=rules("Bash(tell:*)"))

    for enters, expected in ((False, []), (True, ["data"])):
        monkeypatch.setattr(os, "access", lambda *_, enters=enters: enters)
        assert hidden(Denials(access, desk, (), PATH), desk) == expected


def test_so_is_one_that_may_hold_a_denied_program(desk: Path, closed: list[Path]) -> None:
    script(desk / "app/tell")
    closed.append(desk / "app")

    denials = Denials(AccessRules(programs=rules("Bash(tell:*)")), desk, (), PATH)

    assert denials.profile.programs == (desk / "app",)


def test_if_the_root_itself_can_not_be_opened_no_rule_is_enforced(desk: Path, closed: list[Path]) -> None:
    closed.append(desk)
    access = AccessRules(rules("*(secrets/**)"), writes=rules("Write(a)"))

    assert names(Denials(access, desk, (), PATH).unheld) == ["*(secrets/**)", "Write(a)"]


def test_a_folder_whose_names_are_too_long_is_denied_above_them(desk: Path) -> None:
    """So a profile stays small; and what is deeper than a path can be long is denied with it."""
    name, folder = "d" * 200, os.open(desk, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
        os.close(os.open("x.pem", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    access = AccessRules(rules("*(**/*.pem)"), programs=rules("Bash(tell:*)"))

    profile = Denials(access, desk, (), PATH).profile

    assert len(profile.hidden) == 4  # three files, and the folder of the fourth with all that is below
    assert max(len(str(one)) for one in (*profile.hidden, *profile.programs)) <= len(str(desk)) + 1_000
    os.system(f"rm -rf {desk}")


@pytest.mark.parametrize(
    "target", [".", "..", "/", "/usr", "/usr/bin", "/tmp", "/proc/self", "/proc/1/root", "nothing", ".env", "x" * 4000]
)
def test_a_denied_link_to_what_commands_need_denies_nothing_else(desk: Path, wall: Choice, target: str) -> None:
    """Any command can make one, and no later one would run."""
    lay(desk, "a.txt", "sub/a.txt")
    for name in (".env", "conf", "tell"):
        (desk / name).symlink_to(target)
    access = AccessRules(
        rules("*(.env)", "*(conf/**)", "*(**/x/key)"), programs=rules("Bash(tell:*)", "Bash(./tell:*)")
    )

    assert MILK in run(desk, wall, access, "cat a.txt")


def test_a_denied_link_denies_its_target_in_the_root_and_in_readable_folders(tmp_path: Path, desk: Path) -> None:
    lay(tmp_path, "desk/sub/a", "data/b", "data/deep/key", "elsewhere/c")
    for name, target in {"one": "sub/a", "two": "../data/b", "three": "../elsewhere/c", "four": "../data"}.items():
        (desk / name).symlink_to(target)
    access = AccessRules(rules("*(one)", "*(two)", "*(three)", "*(four/deep/**)"))

    denials = Denials(access, desk, (tmp_path / "data",), PATH)

    assert hidden(denials, desk) == sorted(["sub/a", str(tmp_path / "data/b"), str(tmp_path / "data/deep")])
    assert names(denials.absent) == ["*(three)"]


def test_too_many_files_are_reported(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((_denied_paths, "MOST"), (_denied_programs, "MOST")):
        monkeypatch.setattr(module, name, 3)
    for number in range(5):
        script(desk / f"{number}/tell")
    access = AccessRules(rules("*(**/tell)", "*(0/tell)"), programs=rules("Bash(tell:*)"))

    denials = Denials(access, desk, (), PATH)

    assert len(denials.profile.hidden) == 3
    assert names(denials.unheld) == ["*(**/tell)", "*(0/tell)", "Bash(tell:*)"]


def test_too_much_to_look_at_is_reported(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that was looked for in all of its places still counts as enforced."""
    lay(desk, ".env", "deep/er/x.pem", *(f"deep/er/{number}" for number in range(20)))
    monkeypatch.setattr(_denied_paths, "VISITED", 10)
    monkeypatch.setattr(_denied_programs, "VISITED", 10)
    access = AccessRules(rules("*(.env)", "*(**/*.pem)"), programs=rules("Bash(cat:*)"))

    denials = Denials(access, desk, (), PATH)

    assert hidden(denials, desk) == [".env"]
    assert names(denials.unheld) == ["*(**/*.pem)"]
    assert names(denials.partly) == ["Bash(cat:*)"]
    said = SandboxedCommand(Sandbox("bubblewrap"), access, denials).describe()
    assert said.endswith(
        "it enforces *(.env), Bash(cat:*); it can't enforce *(**/*.pem); "
        "it was too much to look everywhere for the program of Bash(cat:*)"
    )


# ---------------------------------------------------------------------------------------------------------- by name


def link_to(desk: Path) -> Path:
    (desk.parent / "link").symlink_to("desk")
    return desk.parent / "link"


@pytest.mark.parametrize(
    ("pattern", "readable"),
    [
        ("*({top}/link/secrets/**)", ()),
        ("*({top}/li*/secrets/**)", ()),
        ("*({top}/desk/secrets/**)", ()),
        ("*(../link/secrets/**)", ()),
        ("*(../desk/sec*/key)", ()),
        ("*(out/secrets/**)", ("other",)),
        ("*(../other/secrets/**)", ("other",)),
        ("*(../other/secrets/key)", (".",)),
        ("*({top}/other/secrets/**)", (".",)),
        ("*(secrets/**)", ("other",)),
    ],
)
def test_a_rule_holds_by_every_name_of_a_directory(
    desk: Path, wall: Choice, pattern: str, readable: tuple[str, ...]
) -> None:
    """The root is named through a link, and has one to a folder that commands may read."""
    lay(desk.parent, "desk/secrets/key", "other/secrets/key")
    (desk / "out").symlink_to("../other")
    root, access = link_to(desk), AccessRules(rules(pattern.format(top=desk.parent)))
    folders = tuple(desk.parent / name for name in readable)
    line = f"cat {'../other' if readable else '.'}/secrets/key"

    assert MILK in run(root, wall, AccessRules(), line, readable=folders)
    assert MILK not in run(root, wall, access, line, "cat out/secrets/key", readable=folders)


def test_rules_on_files_of_the_system_hold(desk: Path, wall: Choice) -> None:
    line = "head -n 1 /etc/passwd; ls /usr/share; cat /usr/lib/os-release /lib/os-release"
    access = AccessRules(rules("*(/etc/passwd)", "Read(/usr/share/**)", "Read(/lib/os-rel*)"))

    outputs = [run(desk, wall, one, line) for one in (AccessRules(), access)]

    assert [[word for word in ("root:", "doc\n", "NAME=") if word in said] for said in outputs] == [
        ["root:", "doc\n", "NAME="],
        [],
    ]


@pytest.mark.parametrize(
    ("pattern", "unheld", "absent"),
    [
        ("*(/usr/bin/**)", True, False),
        ("*(/**)", True, False),
        ("Read(/proc/self/environ)", True, False),
        ("Read(/usr/share/nothing)", False, True),
        ("Read(~/.ssh/**)", False, False),  # it is not there for a command
        ("Read(/etc/shadow)", False, False),
        ("Read(../other/.env)", False, False),
        ("Read(secrets/**)", False, True),
        ("Write(../other)", False, False),
    ],
)
def test_each_rule_is_enforced_or_reported(desk: Path, pattern: str, unheld: bool, absent: bool) -> None:
    access = AccessRules(writes=rules(pattern)) if pattern.startswith("Write") else AccessRules(rules(pattern))

    denials = Denials(access, desk, (), PATH)

    assert names(denials.unheld) == [pattern] * unheld
    assert names(denials.absent) == [pattern] * absent


def test_what_is_not_there_yet_is_named_and_no_reason_to_refuse(desk: Path, wall: Choice) -> None:
    lay(desk, ".env")
    access = AccessRules(
        rules("*(.env)", "*(secrets/**)"), writes=rules("Write(go.sum)"), programs=rules("Bash(./x:*)")
    )
    with shell_tools(desk, sandbox=wall) as tools:
        context = ToolContext(None, access=access)
        preview = tools[0].preview({"command": "true"}, context)
        assert "exit code 0" in tools[0].call({"command": "true"}, context)

    assert preview is not None
    assert "it enforces *(.env); nothing is there yet for *(secrets/**), Write(go.sum), Bash(./x:*)" in preview.note


# --------------------------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("place", ["bin/tell", "node_modules/.bin/tell", "tools/deep/TELL", "../more/bin/tell"])
def test_a_program_is_denied_wherever_it_lies(desk: Path, wall: Choice, place: str) -> None:
    script(desk / place)
    (desk / "link").symlink_to(place)
    more = desk.parent / "more"
    more.mkdir(exist_ok=True)
    lines = place, f"sh {place}", f"cp {place} $TMPDIR/q; $TMPDIR/q", "./link", f"chmod -x {place}; sh {place}"
    line = "; ".join(f"({one})" for one in lines)

    assert run(desk, wall, AccessRules(), line, readable=(more,)).count(TOLD) == len(lines)
    assert TOLD not in run(desk, wall, AccessRules(programs=rules("Bash(tell:*)")), line, readable=(more,))


def test_a_second_file_of_a_program_of_the_system_is_denied(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git has one in ``/usr/lib/git-core``."""
    script(tmp_path / "lib/core/tell")
    lay(tmp_path, "lib/doc/tell")
    monkeypatch.setattr(_denied_programs, "LIBRARIES", (str(tmp_path / "lib"),))

    denials = Denials(AccessRules(programs=rules("Bash(tell:*)")), desk, (), PATH)

    assert denials.profile.programs == (tmp_path / "lib/core/tell",)


ELF = b"\x7fELF\0cat\0wget\0"


@pytest.mark.parametrize(
    ("lies", "content", "masked", "unheld"),
    [
        (lambda desk: desk / "tools/busybox", ELF, True, False),
        (lambda desk: desk / "deep/toybox-x86_64", b"#!/bin/sh\n", True, False),
        (lambda desk: desk / "tools/busybox.static", b"\x7fELF\0cat\0", False, False),
        (lambda desk: desk / "tools/linked/busybox", ELF, False, True),
    ],
    ids=["on the path", "in the root", "without this applet", "linked"],
)
def test_a_multi_call_program_counts_as_each_of_its_own(
    desk: Path, lies: Callable[[Path], Path], content: bytes, masked: bool, unheld: bool
) -> None:
    """Also without a link of the denied name. With links to it, whoever hid it would hide all of them."""
    file = lies(desk)
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    if file.parent.name == "linked":
        (file.parent / "cat").symlink_to("busybox")

    access = AccessRules(programs=rules("Bash(wget:*)"))
    denials = Denials(access, desk, (), f"{desk}/tools:{desk}/tools/linked:{PATH}")

    assert (file in denials.profile.programs) == masked
    assert names(denials.unheld) == ["Bash(wget:*)"] * unheld


def test_a_required_sandbox_refuses_what_it_can_not_enforce(desk: Path, wall: Choice) -> None:
    with pytest.raises(ToolError, match=r"can't enforce Read\(/proc/\*\*\)"):
        run(desk, wall, AccessRules(rules("Read(/proc/**)")), "true")
