"""No path leads out of the directory, whoever swaps its folders for links meanwhile."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from cognition import ConfigError
from interpreters import ToolContext, ToolError
from interpreters.toolbox import standard_tools
from interpreters.toolbox._file_access import UNLIMITED
from interpreters.toolbox._path_sandbox import LINKS, OutsideError, PathSandbox, SandboxedPath, SwappedError

INSIDE, OUTSIDE = "what may be read", "the secret of somebody else"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory ``desk`` with a file in each folder, beside one that nobody may reach."""
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "desk" / "src" / "deep").mkdir(parents=True)
    for folder in ("out", "out/deep"):
        (tmp_path / folder / "a.txt").write_text(OUTSIDE)
    for folder in ("desk", "desk/src", "desk/src/deep"):
        (tmp_path / folder / "a.txt").write_text(INSIDE)
    return tmp_path


def parts_of(wall: PathSandbox, path: str) -> str:
    with wall.at(path, UNLIMITED) as place:
        return "/".join(place.parts)


PATHS: list[tuple[str, str | None]] = [
    ("a.txt", "a.txt"),
    ("", ""),
    (".", ""),
    ("src", "src"),
    ("src/", "src"),
    ("src/..", ""),
    ("src/../a.txt", "a.txt"),
    ("src/deep/../../a.txt", "a.txt"),
    ("new.txt", "new.txt"),
    ("../desk/a.txt", "a.txt"),
    ("../desk/src/../a.txt", "a.txt"),
    ("{base}/desk/a.txt", "a.txt"),
    ("{base}/desk", ""),
    ("{base}//desk///src/./a.txt", "src/a.txt"),
    ("{base}/out/../desk/a.txt", "a.txt"),
    ("..", None),
    ("../out/a.txt", None),
    ("src/../../out/a.txt", None),
    ("{base}/out/a.txt", None),
    ("{base}/desk2", None),
    ("{base}", None),
    ("/", None),
    ("//", None),
    ("/etc/passwd", None),
]
"""A path, and what it is below the root; None for one that leads out."""

LINKS_MADE: list[tuple[str, str, str, str | None]] = [
    ("link", "a.txt", "link", "a.txt"),
    ("link", "src", "link/a.txt", "src/a.txt"),
    ("link", "src/deep", "link/../a.txt", "src/a.txt"),
    ("link", "{base}/desk/src", "link/a.txt", "src/a.txt"),
    ("src/link", "../a.txt", "src/link", "a.txt"),
    ("src/link", "deep/../../a.txt", "src/link", "a.txt"),
    ("link", "nothing", "link", "nothing"),
    ("link", "{base}", "link/desk/a.txt", "a.txt"),
    ("link", "..", "link/desk/a.txt", "a.txt"),
    ("link", "../out", "link/a.txt", None),
    ("link", "{base}/out/a.txt", "link", None),
    ("link", "..", "link/out/a.txt", None),
    ("link", "/", "link/etc/passwd", None),
    ("src/link", "../../out", "src/link/a.txt", None),
    ("link", "/proc/self/cwd", "link/a.txt", None),
    ("link", "/proc/self/root", "link", None),
]
"""A link in the directory, where it points, a path through it, and what that is below the root."""


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_a_path_leads_where_it_says_or_is_refused(base: Path, path: str, expected: str | None) -> None:
    """Relative or absolute, with ``..`` or without; also by a way around that comes back."""
    wall = PathSandbox(base / "desk")
    path = path.format(base=base)

    if expected is None:
        with pytest.raises(OutsideError):
            parts_of(wall, path)
    else:
        assert parts_of(wall, path) == expected


@pytest.mark.parametrize(("name", "target", "path", "expected"), LINKS_MADE)
def test_a_link_is_resolved_against_the_root(
    base: Path, name: str, target: str, path: str, expected: str | None
) -> None:
    """It may lead anywhere inside, and nowhere else."""
    (base / "desk" / name).symlink_to(target.format(base=base))

    test_a_path_leads_where_it_says_or_is_refused(base, path, expected)


@settings(max_examples=300)
@given(
    links=st.dictionaries(
        st.sampled_from(["l", "m", "src/l", "src/deep/m"]),
        st.lists(st.sampled_from(["..", ".", "src", "deep", "l", "m", "out", "desk", "a.txt"]), min_size=1, max_size=4),
        max_size=4,
    ),
    path=st.lists(
        st.sampled_from(["..", ".", "src", "deep", "l", "m", "out", "desk", "a.txt", ""]), min_size=1, max_size=6
    ),
)
def test_what_is_reached_is_what_the_system_reaches(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, list[str]], path: list[str]
) -> None:
    """Against ``realpath``, which follows names: whatever the wall gives is the same file, and lies inside."""
    base = tmp_path_factory.mktemp("base")
    (base / "out").mkdir()
    (base / "out" / "a.txt").write_text(OUTSIDE)
    root = base / "desk"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text(INSIDE)
    for name, target in links.items():
        (root / name).symlink_to("/".join(target))
    wall = PathSandbox(root)

    try:
        with wall.at("/".join(path), UNLIMITED) as place:
            reached = root.joinpath(*place.parts)
            content = b"" if not os.path.isfile(reached) else os.read(place.open(os.O_RDONLY), 100)
    except (OutsideError, OSError):
        return
    assert content != OUTSIDE.encode()
    assert reached.resolve() == reached
    real = (root / "/".join(path)).resolve()
    if real.is_relative_to(root):  # else a way outside led back by other names than the real ones
        assert reached == real


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("nowhere/a.txt", errno.ENOENT),
        ("a.txt/b", errno.ENOTDIR),
        ("a.txt/..", errno.ENOTDIR),
        ("circle", errno.ELOOP),
        ("circle/a.txt", errno.ELOOP),
        ("chain0", errno.ELOOP),
        ("x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_what_can_not_be_followed_is_the_system_s_own_error(base: Path, path: str, number: int) -> None:
    """Links are followed up to a number, so that a circle ends."""
    (base / "desk" / "circle").symlink_to("circle")
    for step in range(LINKS + 1):
        (base / "desk" / f"chain{step}").symlink_to(f"chain{step + 1}")
    (base / "desk" / f"chain{LINKS + 1}").touch()

    assert parts_of(PathSandbox(base / "desk"), "chain1") == f"chain{LINKS + 1}"
    with pytest.raises(OSError) as caught:  # noqa: PT011 - by its number
        parts_of(PathSandbox(base / "desk"), path)
    assert caught.value.errno == number


def test_a_writer_gets_a_folder_that_stays_the_one_it_was(base: Path) -> None:
    """A file that is made by its place is made there, though the folder's name is a link by then."""
    wall = PathSandbox(base / "desk")
    with wall.at("src/new.txt", UNLIMITED) as place:
        assert place.about is None
        (base / "desk" / "src").rename(base / "desk" / "moved")
        (base / "desk" / "src").symlink_to(base / "out")
        os.close(place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL))

    assert (base / "desk" / "moved" / "new.txt").exists()
    assert not (base / "out" / "new.txt").exists()


def test_a_name_that_is_a_link_by_now_is_not_opened(base: Path) -> None:
    """Neither to read nor to write."""
    wall = PathSandbox(base / "desk")
    for path in ("a.txt", "new.txt"):
        with wall.at(path, UNLIMITED) as place:
            (base / "desk" / path).unlink(missing_ok=True)
            (base / "desk" / path).symlink_to(base / "out" / "a.txt")
            for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
                with pytest.raises(SwappedError):
                    place.open(flags)


def test_a_root_that_is_swapped_for_a_link_is_not_entered(base: Path) -> None:
    """Nor one whose own folder is."""
    for swapped in (base / "desk", base):
        wall = PathSandbox(base / "desk")
        away = swapped.with_name("away")
        swapped.rename(away)
        swapped.symlink_to(away)
        with pytest.raises(OSError):  # noqa: PT011 - which of them depends on the system
            parts_of(wall, "a.txt")
        swapped.unlink()
        away.rename(swapped)
    assert parts_of(wall, "a.txt") == "a.txt"


def test_a_system_without_openat_gets_no_wall(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What protects fails closed."""
    monkeypatch.setattr(os, "supports_dir_fd", set())

    with pytest.raises(ConfigError, match="openat"):
        PathSandbox(base / "desk")


def test_where_the_working_directory_is_deleted_that_is_said(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line took the error, which names no file, for one of its output: "free some space"."""
    gone = base / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="has been deleted; go to another"):
        PathSandbox(".")


def test_no_descriptor_is_left_open(base: Path) -> None:
    wall = PathSandbox(base / "desk")
    before = set(os.listdir("/proc/self/fd"))
    for path, _ in PATHS:
        try:
            with wall.at(path.format(base=base), UNLIMITED) as place:
                assert isinstance(place, SandboxedPath)
        except (OutsideError, OSError):
            continue

    assert set(os.listdir("/proc/self/fd")) == before


# ------------------------------------------------------------------------------------------------------ a real race

SWAPPER = """
    import os, sys
    base, kind = sys.argv[1:]
    os.chdir(base)

    def write(path):
        with open(path, "w") as file:
            file.write("what may be read")

    print("ready", flush=True)
    for turn in range(10**9):
        if kind == "folder":        # desk/src: now a folder, now a link to the folder outside
            os.rename("desk/src", "desk/kept")
            os.symlink("../out", "desk/src")
            os.unlink("desk/src")
            os.rename("desk/kept", "desk/src")
        elif kind == "inner folder":
            os.rename("desk/src/deep", "desk/src/kept")
            os.symlink("../../out/deep", "desk/src/deep")
            os.unlink("desk/src/deep")
            os.rename("desk/src/kept", "desk/src/deep")
        elif kind == "file":
            early = turn % 2            # so that now the link stands for longer, now the file
            if early:
                write("desk/src/new")
            os.symlink("../../out/a.txt", "desk/src/planted")
            os.rename("desk/src/planted", "desk/src/a.txt")
            if not early:
                write("desk/src/new")
            os.rename("desk/src/new", "desk/src/a.txt")
        else:                       # a link that leads inside, now outside
            os.symlink("src" if turn % 2 else "../out", "desk/planted")
            os.rename("desk/planted", "desk/link")
"""

ROUNDS = 2_000
"""Reads of each kind of race. By names, one in about sixty got out."""


@contextmanager
def swapping(base: Path, kind: str) -> Iterator[None]:
    """Another process that swaps without end."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SWAPPER), str(base), kind], stdout=subprocess.PIPE
    ) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.kill()


USES: dict[str, Callable[[dict[str, Callable[..., str]], str], str]] = {
    "Read": lambda tools, path: tools["Read"](path=path),
    "Grep a file": lambda tools, path: tools["Grep"](pattern="e", path=path),
    "Grep a folder": lambda tools, path: tools["Grep"](pattern="e", path=os.path.dirname(path)),
    "Grep everything": lambda tools, path: tools["Grep"](pattern="secret"),
    "Glob": lambda tools, path: tools["Glob"](pattern=f"{os.path.dirname(path)}/**/only-outside*"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("folder", "src/a.txt"),
        ("folder", "src/deep/a.txt"),
        ("inner folder", "src/deep/a.txt"),
        ("file", "src/a.txt"),
        ("link", "link/a.txt"),
    ],
)
def test_no_read_gets_out_while_another_process_swaps(
    base: Path, kind: str, path: str, use: Callable[[dict[str, Callable[..., str]], str], str]
) -> None:
    """Not one, of all tools that read; and some succeed, so that it is a race."""
    (base / "out" / "only-outside.txt").write_text(OUTSIDE)
    (base / "out" / "deep" / "only-outside.txt").write_text(OUTSIDE)

    def caller(tool: object) -> Callable[..., str]:
        def call(**arguments: str) -> str:
            try:
                return str(tool.call(arguments, ToolContext(None)))  # type: ignore[attr-defined]  # each is a Tool
            except ToolError as error:
                return f"Error: {error}"

        return call

    tools = {tool.spec.name: caller(tool) for tool in standard_tools(base / "desk")}
    with swapping(base, kind):
        answers = [use(tools, path) for _ in range(ROUNDS)]

    assert [answer for answer in answers if OUTSIDE in answer or "only-outside.txt" in answer] == []
    assert any(not answer.startswith("Error") for answer in answers)


def test_an_expression_that_is_searched_for_elsewhere_stays_inside_too(base: Path) -> None:
    """A regular expression is looked for by a child process, which opens the files itself."""
    tools = {tool.spec.name: tool for tool in standard_tools(base / "desk")}
    with swapping(base, "folder"):
        for _ in range(40):
            answer = tools["Grep"].call({"pattern": "s.cret|re.d"}, ToolContext(None))
            assert OUTSIDE not in str(answer)
