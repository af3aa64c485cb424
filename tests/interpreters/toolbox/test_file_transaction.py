"""Several files change together or not at all: whatever fails, whoever interferes, whenever the process is killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from interpreters.toolbox import file_transaction as changing
from interpreters.toolbox._change_notes import FOLDER
from interpreters.toolbox.edit_session import EditSession
from interpreters.toolbox.file_transaction import ChangedError, FileState, FileStep, FileTransaction, digest_of
from runtime.files import state_directory

Tree = dict[str, bytes]


def tree_of(root: Path) -> Tree:
    """Every file with what it holds, every folder, and where every link leads."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = b"-> " + os.fsencode(os.readlink(path))
        else:
            found[f"{name}/" if path.is_dir() else name] = path.read_bytes() if path.is_file() else b""
    return found


def lay(root: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def before(root: Path, name: str) -> FileState | None:
    path = root / name
    return FileState(digest_of(path.read_bytes()), path.lstat()) if path.exists() else None


def steps_to(root: Path, wanted: Mapping[str, bytes | None]) -> list[FileStep]:
    return [FileStep((*name.split("/"),), before(root, name), content) for name, content in wanted.items()]


START = {"a.txt": b"a", "src/b.txt": b"b", "src/gone.txt": b"old", "kept.txt": b"kept"}
WANTED = {
    "a.txt": b"A",
    "src/b.txt": b"B",
    "src/gone.txt": None,
    "new/deep/c.txt": b"C",
    "d.txt": b"D",
    "kept.txt": b"kept",  # the same again, as where only a mode changes
}
END = {
    "a.txt": b"A",
    "src/": b"",
    "src/b.txt": b"B",
    "kept.txt": b"kept",
    "new/": b"",
    "new/deep/": b"",
    "new/deep/c.txt": b"C",
    "d.txt": b"D",
}


@pytest.fixture(params=["exchange", "no exchange"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files; on a system that can exchange names and on one that can't."""
    if request.param == "no exchange":
        monkeypatch.setattr(changing, "_function", lambda: None)
    lay(tmp_path, START)
    return tmp_path


def test_all_is_done(root: Path) -> None:
    """Replaced, deleted, and made, with the folders to it; nothing else is left."""
    FileTransaction(str(root)).make(steps_to(root, WANTED))
    assert tree_of(root) == END


names = st.sampled_from(["a", "b", "x/a", "x/b", "y/z/a"])
trees = st.dictionaries(names, st.binary(max_size=3))


@given(start=trees, end=trees)
def test_any_tree_becomes_any_other(tmp_path_factory: pytest.TempPathFactory, start: Tree, end: Tree) -> None:
    root = tmp_path_factory.mktemp("root")
    lay(root, start)
    wanted = {name: end.get(name) for name in {**start, **end} if start.get(name) != end.get(name)}

    FileTransaction(str(root)).make(steps_to(root, wanted))
    assert {name: content for name, content in tree_of(root).items() if not name.endswith("/")} == end


def test_modes_and_owners_are_kept(root: Path) -> None:
    """And a new file is one as others make it."""
    os.chmod(root / "a.txt", 0o4751)
    umask = os.umask(0o027)
    try:
        FileTransaction(str(root)).make(
            [*steps_to(root, {"a.txt": b"A", "new.txt": b""}), FileStep(("x.sh",), None, b"", 0o777)]
        )
    finally:
        os.umask(umask)

    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("a.txt", "new.txt", "x.sh")] == [
        0o4751,
        0o640,
        0o750,
    ]


# --------------------------------------------------------------------------------------------------------- what fails

CALLS = ["open", "write", "link", "rename", "unlink", "mkdir", "fsync", "fchmod"]
"""What changes something, or forces it to the disk."""


def failing(monkeypatch: pytest.MonkeyPatch, number: int, fail: Callable[[], object]) -> list[int]:
    """Have a call fail, counted from now on, and only that one. Gives the count as it goes."""
    count = [0]

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            count[0] += 1
            if count[0] == number:
                fail()
            return function(*args, **options)

        return call

    for name in CALLS:
        monkeypatch.setattr(changing.os, name, counted(getattr(os, name)))
    monkeypatch.setattr(changing, "exchange", counted(changing.exchange))
    return count


def test_whatever_fails_everything_is_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call in turn. One that fails after the last step comes too late: then all is done, and nothing is raised."""

    def no_space() -> None:
        raise OSError(28, "No space left on device")

    start, number = tree_of(root), 0
    while True:
        number += 1
        steps = steps_to(root, WANTED)
        with monkeypatch.context() as patch:
            count = failing(patch, number, no_space)
            try:
                FileTransaction(str(root)).make(steps)
                raised = False
            except (OSError, ChangedError):  # the latter where what is in its place could not be read
                raised = True
        FileTransaction(str(root)).settle()
        assert raised == (tree_of(root) != END), number
        if not raised:
            if count[0] < number:
                break
            for name in [*END, *START]:
                (root / name).is_file() and (root / name).unlink()
            (root / "new/deep").rmdir()
            (root / "new").rmdir()
            lay(root, START)
        assert tree_of(root) == start, number
    assert number > 30


def test_an_interrupt_leaves_everything_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    start = tree_of(root)
    with monkeypatch.context() as patch:
        failing(patch, 25, interrupt)
        with pytest.raises(KeyboardInterrupt):
            FileTransaction(str(root)).make(steps_to(root, WANTED))
    assert tree_of(root) == start


# ------------------------------------------------------------------------------------------------------------- kills

KILLED = """
    import os, signal, sys
    from pathlib import Path
    sys.path[:0] = {paths!r}
    from tests.interpreters.toolbox import test_file_transaction as t

    root = Path(sys.argv[1])
    if sys.argv[2] == "no exchange":
        t.changing._function = lambda: None
    patch = t.pytest.MonkeyPatch()
    number = 0
    while True:
        number += 1
        t.lay(root, t.START)
        start = t.tree_of(root)
        child = os.fork()
        if child == 0:
            t.failing(patch, number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            t.FileTransaction(str(root)).make(t.steps_to(root, t.WANTED))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        t.FileTransaction(str(root)).settle()
        found = t.tree_of(root)
        if found not in (start, t.END):
            sys.exit(f"killed in call {{number}}: {{found}}")
        if status == 0:
            break
        if found == t.END:
            for name in (*t.END, *t.START):
                (root / name).is_file() and (root / name).unlink()
            (root / "new/deep").rmdir()
            (root / "new").rmdir()
    print(number)
"""
HERE = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("kind", ["exchange", "no exchange"])
def test_killed_in_any_call_everything_is_as_it_was_or_done(tmp_path: Path, kind: str) -> None:
    """A process of its own dies in each call in turn; the next to look puts back what it left."""
    code = textwrap.dedent(KILLED.format(paths=[str(HERE)]))
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


FLIPPING = """
    import sys
    from pathlib import Path
    sys.path[:0] = {paths!r}
    from interpreters.toolbox.file_transaction import FileState, FileStep, FileTransaction, digest_of

    root = Path(sys.argv[1])
    changes = FileTransaction(str(root))
    turn = int((root / "a").read_bytes().split()[0])
    print("ready", flush=True)
    while True:
        turn += 1
        content = b"%d\\n" % turn * 2000
        wanted = {{"a": content, "x/b": content, "x/odd": content, "x/even": None}}
        if turn % 2 == 0:
            wanted |= {{"x/odd": None, "x/even": content}}
        steps = []
        for name, after in wanted.items():
            path = root / name
            before = FileState(digest_of(path.read_bytes()), path.lstat()) if path.exists() else None
            steps.append(FileStep(tuple(name.split("/")), before, after))
        changes.make(steps)
"""


@pytest.mark.slow
def test_killed_at_any_moment_no_change_is_half_made(tmp_path: Path) -> None:
    """``kill -9``, a few dozen times: the files are of one turn, all four."""
    code = textwrap.dedent(FLIPPING.format(paths=[str(HERE)]))
    lay(tmp_path, {"a": b"0", "x/b": b"0", "x/even": b"0"})
    chance, seen = random.Random(1), set()
    for _ in range(36):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(chance.random() * 0.05)
            child.send_signal(signal.SIGKILL)
        FileTransaction(str(tmp_path)).settle()
        found = tree_of(tmp_path)
        turn = int(found["a"].split()[0])
        content = b"%d\n" % turn * 2000 if turn else b"0"
        assert found == {"a": content, "x/": b"", "x/b": content, "x/odd" if turn % 2 else "x/even": content}
        seen.add(turn)
    assert len(seen) > 1


# -------------------------------------------------------------------------------------------------- somebody interferes


@pytest.mark.parametrize(
    "interfere",
    [
        lambda root: (root / "src/b.txt").write_bytes(b"theirs"),
        lambda root: (root / "src/b.txt").unlink(),
        lambda root: ((root / "src/b.txt").unlink(), (root / "src/b.txt").symlink_to("../kept.txt")),
        lambda root: ((root / "other").write_bytes(b"b"), (root / "other").rename(root / "src/b.txt")),
        lambda root: ((root / "src/b.txt").unlink(), (root / "src/b.txt").mkdir()),
        lambda root: (root / "src/gone.txt").write_bytes(b"theirs"),
        lambda root: ((root / "src/gone.txt").unlink(), (root / "src/gone.txt").symlink_to("../kept.txt")),
        lambda root: ((root / "src/gone.txt").unlink(), (root / "src/gone.txt").mkdir()),
        lambda root: (root / "d.txt").write_bytes(b"theirs"),
        lambda root: (root / "d.txt").symlink_to("kept.txt"),
        lambda root: (root / "d.txt").symlink_to("nowhere"),
        lambda root: (root / "d.txt").mkdir(),
        lambda root: ((root / "src").rename(root / "moved"), (root / "src").symlink_to("moved")),
        lambda root: (root / "new").symlink_to("src"),
        lambda root: (root / "new").write_bytes(b"theirs"),
    ],
)
def test_what_is_not_what_was_read_stops_all(root: Path, interfere: Callable[[Path], object]) -> None:
    """Changed, gone, a link, another file of the same content, a folder: and what they have put there stays."""
    steps = steps_to(root, WANTED)
    interfere(root)
    theirs = tree_of(root)

    with pytest.raises((ChangedError, OSError)):
        FileTransaction(str(root)).make(steps)
    assert tree_of(root) == theirs


@pytest.mark.parametrize("fails", [True, False])
def test_a_folder_that_is_moved_meanwhile_is_put_back_and_tidied_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A link stands where it was, so that its path leads elsewhere by then."""
    start, taken = tree_of(root), changing._take_step

    def take(step: FileStep, folder: int, new: str, old: str) -> None:
        if step.path == "a.txt":
            (root / "src").rename(root / "moved")
            (root / "src").symlink_to("moved")
            if fails:
                raise OSError(28, "No space left on device")
        taken(step, folder, new, old)

    monkeypatch.setattr(changing, "_take_step", take)
    steps = steps_to(root, {"src/gone.txt": None, "src/b.txt": b"B", "a.txt": b"A"})
    try:
        FileTransaction(str(root)).make(steps)
    except OSError:
        assert fails
    (root / "src").unlink()
    (root / "moved").rename(root / "src")
    end = {**start, "src/b.txt": b"B", "a.txt": b"A"}
    del end["src/gone.txt"]
    assert tree_of(root) == (start if fails else end)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are exchanged by renameat2")
def test_in_a_race_nothing_of_theirs_is_lost_and_no_link_is_followed(tmp_path: Path) -> None:
    """A thread puts files and links in the place of the one that is changed, and counts what it finds there."""
    root, outside = tmp_path / "desk", tmp_path / "outside.txt"
    root.mkdir()
    outside.write_bytes(b"outside")
    (root / "a.txt").write_bytes(b"0")
    changes, over = FileTransaction(str(root)), threading.Event()
    links = 0

    def swap() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            if turn % 2:
                (root / "planted").symlink_to(outside)
            else:
                (root / "planted").write_bytes(b"theirs")
            os.rename(root / "planted", root / "a.txt")

    thread = threading.Thread(target=swap)
    thread.start()
    made = refused = 0
    try:
        for turn in range(300):
            about = (root / "a.txt").lstat()
            if stat.S_ISLNK(about.st_mode):
                links += 1
            content = b"ours %d" % turn
            try:
                changes.make([FileStep(("a.txt",), FileState(digest_of(b"theirs"), about), content)])
                made += 1
            except ChangedError:
                refused += 1
    finally:
        over.set()
        thread.join()

    assert outside.read_bytes() == b"outside"
    assert refused
    assert made + refused == 300
    assert set(os.listdir(root)) <= {"a.txt", "planted"}


def test_one_that_works_is_left_alone_by_others(root: Path) -> None:
    """Its note is locked; and two that begin at once get on with each other."""
    steps = steps_to(root, {"a.txt": b"A", "kept.txt": b"K"})
    changes, seen = FileTransaction(str(root)), []
    real = changing._take_step

    def taken(*args: object) -> None:
        changing._take_step = real  # type: ignore[assignment]
        seen.append(tree_of(root))
        FileTransaction(str(root)).make(steps_to(root, {"other.txt": b"%d" % len(seen)}))
        assert os.listdir(state_directory() / FOLDER)
        real(*args)  # type: ignore[arg-type]

    changing._take_step = taken  # type: ignore[assignment]
    try:
        changes.make(steps)
    finally:
        changing._take_step = real  # type: ignore[assignment]
    assert tree_of(root) == {**tree_of(root), "a.txt": b"A", "kept.txt": b"K", "other.txt": b"1"}
    assert not any(name.startswith(".cogstep") for name in os.listdir(root))


# -------------------------------------------------------------------------------------------------------------- notes

TOKEN = "0123456789abcdef"
STEP = {"folder": [], "name": "a.txt", "old": digest_of(b"x"), "inode": 1, "new": digest_of(b"a")}


def note_of(**plan: object) -> bytes:
    return json.dumps({"token": TOKEN, "steps": [STEP], "folders": [], **plan}).encode() + b"\nwritten\n"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of notes in a state directory of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return state_directory() / FOLDER


def put_note(notes: Path, root: Path, content: bytes, mode: int = 0o600) -> Path:
    """Write a note as a process has left it that has died."""
    notes.mkdir(0o700, parents=True, exist_ok=True)
    notes.parent.chmod(0o700)
    note = notes / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}-{TOKEN}.note"
    note.write_bytes(content)
    note.chmod(mode)
    return note


def desk_of(tmp_path: Path) -> Path:
    """A directory in which everything is ready for a note: the file it names, and the content to put there."""
    lay(tmp_path / "desk", {**START, f".cogstep-{TOKEN}-0.new": b"planted"})
    return tmp_path / "desk"


@pytest.mark.parametrize(
    "note", [note_of(), note_of(steps=[STEP | {"name": "\ud800"}]), b"", b"[" * 100_000], ids=["whole", "half", "", "["]
)
def test_a_note_in_the_root_does_nothing(
    tmp_path: Path, notes: Path, note: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Who writes there, such as a command in a sandbox, would replace files that it may not write. It is named once."""
    root = desk_of(tmp_path)
    (root / f".cogstep-{TOKEN}.note").write_bytes(note)
    (root / f".cogstep-{TOKEN}.note").chmod(0o600)
    start = tree_of(root)

    session = EditSession(root)
    session.changes.make(steps_to(root, {"new.txt": b"new"}))

    assert tree_of(root) == {**start, "new.txt": b"new"}
    assert [f".cogstep-{TOKEN}.note" in record.getMessage() for record in caplog.records] == [True]


def test_a_note_holds_for_its_own_root_alone(tmp_path: Path, notes: Path) -> None:
    root = desk_of(tmp_path)
    start = tree_of(root)
    other = put_note(notes, tmp_path / "other", note_of())

    FileTransaction(str(root)).settle()
    assert tree_of(root) == start
    assert other.exists()

    put_note(notes, root, note_of())
    FileTransaction(str(root)).settle()
    assert (root / "a.txt").read_bytes() == b"planted"
    assert os.listdir(notes) == [other.name]


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"null\n",
        b"[" * 100_000 + b"\n",
        note_of(token="other"),
        note_of(steps=[STEP | {"folder": [".."]}]),
        note_of(steps=[STEP | {"name": "../a.txt"}]),
        note_of(steps=[STEP | {"name": 1}]),
        note_of(steps=[STEP | {"old": 1}]),
        note_of(folders=[["..", "empty"]]),
        note_of(folders=[[]]),
        note_of(token=1, steps=1, folders=1),
    ],
)
def test_a_damaged_note_does_nothing(tmp_path: Path, notes: Path, note: bytes) -> None:
    """Nothing outside the root is touched, and what it names stays."""
    (tmp_path / "empty").mkdir()
    root = desk_of(tmp_path)
    start = tree_of(root)
    put_note(notes, root, note)

    FileTransaction(str(root)).settle()
    assert tree_of(root) == start
    assert (tmp_path / "empty").is_dir()
    assert os.listdir(notes) == []


@pytest.mark.parametrize("kind", ["mode", "folder", "link", "pipe"])
def test_what_is_no_note_of_this_user_stays_where_it_is(tmp_path: Path, notes: Path, kind: str) -> None:
    root = desk_of(tmp_path)
    note = put_note(notes, root, note_of(), 0o644)
    if kind != "mode":
        note.unlink()
    if kind == "folder":
        note.mkdir()
    elif kind == "link":
        note.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(note)
    start = tree_of(root)

    FileTransaction(str(root)).settle()
    assert tree_of(root) == start
    assert os.path.lexists(note)


@pytest.mark.parametrize("kind", ["a file", "in the root", "open to others", "no home"])
def test_where_no_note_can_be_kept_a_change_is_made_and_a_warning_says_so(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """And what looks like a note there is not believed."""
    root = desk_of(tmp_path)
    if kind == "a file":
        (tmp_path / "state").write_bytes(b"")
    elif kind == "in the root":
        monkeypatch.setenv("XDG_STATE_HOME", str(root))
        put_note(state_directory() / FOLDER, root, note_of())
    elif kind == "open to others":
        put_note(notes, root, note_of())
        notes.chmod(0o777)
    else:
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", "here")
        monkeypatch.chdir(tmp_path)

    changes = FileTransaction(str(root))
    changes.make(steps_to(root, {"b.txt": b"b", "c.txt": b"c"}))
    changes.make(steps_to(root, {"b.txt": b"B"}))

    assert [(root / name).read_bytes() for name in ("a.txt", "b.txt", "c.txt")] == [b"a", b"B", b"c"]
    assert ["killed half-way can't be put back" in record.getMessage() for record in caplog.records] == [True]
