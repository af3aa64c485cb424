"""Files that are the user's alone, and files that come from anybody."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cognition import CogstepError
from runtime.files import (
    UnusableFileError,
    make_directory,
    open_directory,
    open_private,
    open_regular,
    own_state_directory,
    read_regular,
    read_regular_text,
    replace_private,
)
from tests.odd_files import ODD_FILES, PLANTED, UMASKS

WRITE = os.O_WRONLY | os.O_CREAT


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's that nobody named."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    file = folder / "victim"
    file.write_text("precious")
    return file


def _open_private(path: Path) -> None:
    os.close(open_private(path, WRITE | os.O_TRUNC))


WRITERS: dict[str, Callable[[Path], object]] = {
    "open_private": _open_private,
    "open_private, there": lambda path: os.close(open_private(path, os.O_RDWR)),
    "replace_private": lambda path: replace_private(path, b"mine"),
    "replace_private, durable": lambda path: replace_private(path, [b"mi", b"ne"], durable=True),
}


@pytest.mark.parametrize("write", [WRITERS[name] for name in WRITERS if "there" not in name])
def test_what_is_made_is_the_users_alone_whatever_the_umask(
    tmp_path: Path, umask: int, write: Callable[[Path], object]
) -> None:
    """0600 for files, 0700 for directories, those above them that are missing too."""
    place = tmp_path / "a" / "b"

    make_directory(place)
    write(place / "file")

    assert (mode(place.parent), mode(place), mode(place / "file")) == (0o700, 0o700, 0o600)


def test_a_file_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No mode is taken back afterwards: by then somebody may have it open."""
    modes = list[int]()
    set_mode = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda fd, to: (modes.append(os.fstat(fd).st_mode & 0o777), set_mode(fd, to)))
    before = os.umask(0)
    try:
        os.close(open_private(tmp_path / "file", WRITE))
    finally:
        os.umask(before)

    assert modes == [0o600]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_nothing_is_written_through_a_planted_link(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], object], write: Callable[[Path], object]
) -> None:
    """The victim's file keeps what stands in it, and its mode."""
    planted = tmp_path / "planted"
    plant(planted, victim)
    before = mode(victim)

    with contextlib.suppress(UnusableFileError):  # a hard link's own name may be replaced
        write(planted)

    assert victim.read_text() == "precious"
    assert mode(victim) == before


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_link_that_leads_nowhere_makes_nothing(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """Else whoever plants it chooses where a file comes to be."""
    target = tmp_path / "target"
    (tmp_path / "planted").symlink_to(target)

    with pytest.raises(UnusableFileError, match="link"):
        write(tmp_path / "planted")

    assert not target.exists()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("odd", [name for name in ODD_FILES if name != "huge file"])
def test_only_regular_files_are_written(tmp_path: Path, odd: str, write: Callable[[Path], object]) -> None:
    """At once, though a pipe has no reader."""
    path = tmp_path / "odd"
    ODD_FILES[odd](path)

    with pytest.raises(UnusableFileError, match="is a"):
        write(path)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_of_another_user_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    """They could read it."""
    path = tmp_path / "theirs"
    path.write_text("theirs")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(UnusableFileError, match="belongs to another user"):
        write(path)

    assert path.read_text() == "theirs"


def test_a_directory_of_another_user_or_behind_a_link_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a directory may put other files into the places of ours."""
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UnusableFileError, match="is a link"):
        open_directory(tmp_path / "link")

    os.close(open_directory(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnusableFileError, match="belongs to another user"):
        open_directory(tmp_path)


def test_a_replacement_is_whole_or_not_there(tmp_path: Path) -> None:
    """What fails in its midst leaves the file as it was, and nothing beside it."""
    path = tmp_path / "file"
    replace_private(path, b"before")

    def parts() -> Iterator[bytes]:
        yield b"after"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_private(path, parts())
    assert path.read_bytes() == b"before"

    replace_private(path, b"after")
    assert path.read_bytes() == b"after"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_the_place_of_a_replacement_can_not_be_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even whoever guessed its name finds that it is not opened when it is there."""
    monkeypatch.setattr("runtime.files.secrets.token_hex", lambda count: "guessed")
    (tmp_path / ".guessed.part").symlink_to(tmp_path / "target")

    with pytest.raises(FileExistsError):
        replace_private(tmp_path / "file", b"mine")

    assert not (tmp_path / "target").exists()


def test_a_name_may_be_as_long_as_a_disk_allows(tmp_path: Path) -> None:
    """The file beside it has a name of its own."""
    replace_private(tmp_path / ("n" * 255), b"mine")

    assert (tmp_path / ("n" * 255)).read_bytes() == b"mine"


READERS: dict[str, Callable[[Path], object]] = {
    "read_regular": lambda path: read_regular(path, 1000),
    "read_regular, no links": lambda path: read_regular(path, 1000, links=False),
    "read_regular_text": lambda path: read_regular_text(path, 1000),
    "open_regular": lambda path: open_regular(path, longest=1000),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("make", ODD_FILES.values(), ids=ODD_FILES)
def test_nothing_but_a_regular_file_of_a_stated_size_is_read(
    tmp_path: Path, make: Callable[[Path], object], read: Callable[[Path], object]
) -> None:
    """At once, and in one sentence that names it; a link in a circle or to nothing is the disk's own error."""
    path = tmp_path / "odd"
    make(path)

    with pytest.raises((UnusableFileError, FileNotFoundError, OSError)) as caught:
        read(path)

    assert not isinstance(caught.value, CogstepError) or str(caught.value).startswith(f"{path}: it ")


def test_a_link_to_a_regular_file_is_read_unless_links_are_refused(tmp_path: Path) -> None:
    """Reading gives nothing that its reader couldn't open by name; who walks through strangers' files says no."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")

    assert read_regular(tmp_path / "link", 4) == b"text"
    with pytest.raises(UnusableFileError, match="is a link"):
        read_regular(tmp_path / "link", 4, links=False)


@pytest.mark.parametrize(("length", "longest"), [(0, 0), (5, 5), (5, 6), (3 << 20, 3 << 20)])
def test_a_file_up_to_the_bound_is_read_whole(tmp_path: Path, length: int, longest: int) -> None:
    """The bound itself is within it."""
    (tmp_path / "file").write_bytes(b"x" * length)

    assert read_regular(tmp_path / "file", longest) == b"x" * length
    if length:
        with pytest.raises(UnusableFileError, match=f"longer than the {length - 1:,} bytes"):
            read_regular(tmp_path / "file", length - 1)


@pytest.mark.parametrize("claimed", [0, 10, 1000])
def test_a_file_that_grows_while_it_is_read_is_read_within_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    """What its size was said to be is not what is there by then."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    about = os.fstat

    def smaller(descriptor: int) -> os.stat_result:
        return os.stat_result((*about(descriptor)[:6], claimed, *about(descriptor)[7:]))

    monkeypatch.setattr(os, "stat", lambda path, **_: smaller(os.open(path, os.O_RDONLY)))
    monkeypatch.setattr(os, "fstat", smaller)

    assert read_regular(path, 5000) == b"x" * 5000
    with pytest.raises(UnusableFileError, match="longer"):
        read_regular(path, 4999)


@pytest.mark.parametrize("use", [*READERS.values(), *WRITERS.values(), make_directory, open_directory])
def test_a_name_that_is_none_is_said_in_plain_words(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """Python's own error is a ValueError, which nobody expects of a file."""
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(UnusableFileError, match="no name of a file"):
            use(tmp_path / name)


def test_text_is_utf_8_or_refused(tmp_path: Path) -> None:
    """With or without the mark at its beginning."""
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfs\xc3\xbc\xc3\x9f")
    assert read_regular_text(tmp_path / "file", 100) == "süß"

    (tmp_path / "file").write_bytes(b"\xff\xfe")
    with pytest.raises(UnusableFileError, match="is no text"):
        read_regular_text(tmp_path / "file", 100)


def test_the_state_directory_is_one_that_nobody_else_writes_in(tmp_path: Path, umask: int) -> None:
    """It holds what tells this user's files from others'."""
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    place = own_state_directory(environment)

    assert (place, mode(place), mode(place.parent)) == (tmp_path / "state" / "cogstep", 0o700, 0o700)

    place.chmod(0o770)
    with pytest.raises(UnusableFileError, match="other users"):
        own_state_directory(environment)


def test_no_descriptor_is_left_open(tmp_path: Path, victim: Path) -> None:
    """Neither by what succeeds nor by what is refused."""
    paths = []
    for name, make in ODD_FILES.items():
        paths.append(tmp_path / name.replace("/", "-"))
        make(paths[-1])
    before = set(os.listdir("/proc/self/fd"))

    for path in [*paths, tmp_path / "missing", victim]:
        for use in [*READERS.values(), *WRITERS.values(), open_directory, make_directory]:
            try:
                given = use(path)
            except OSError:
                continue
            if isinstance(given, int):
                os.close(given)
            elif given is not None and not isinstance(given, bytes | str):
                given.close()  # type: ignore[attr-defined]  # the file that open_regular gives

    assert set(os.listdir("/proc/self/fd")) == before
