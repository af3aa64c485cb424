"""Recordings with any value at any place, sealed anew: every reader gives a journal's error, or what stands there.

Never a bare exception, a hang or a full memory. What reads recordings stands in ``readers``.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError
from interpreters import replay
from interpreters.recording.journal import JournalDamagedError, JournalError, JournalReader, NotAJournalError
from interpreters.recording.journal.payloads import directory_of
from interpreters.recording.journal.strict_lines import LONGEST
from interpreters.recording.sessions import SessionInfo, list_sessions
from tests.interpreters import evil, readers
from tests.interpreters.evil import EVIL, bodies, body, places, put, seal_texts

ROOT = Path(__file__).resolve().parents[3]
EACH = 6
"""How many of the values are tried at each place in one run of the tests: chance chooses, the same each time."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("evil")
    path = evil.record(folder / "s.jsonl")
    return path, evil.forked(path, folder / "f.jsonl")


@pytest.fixture
def target(recorded: tuple[Path, Path], tmp_path: Path) -> Path:
    """Where the changed recording stands, with the large texts beside it."""
    path = tmp_path / "x.jsonl"
    shutil.copytree(directory_of(recorded[0]), directory_of(path))
    return path


def hold(reader: Any, path: Path) -> None:
    """What a reader promises."""
    try:
        reader(path)
    except CogstepError as error:  # also of other logic, or other tools: a journal, and not one that fits
        if isinstance(error, JournalError) and len(str(error)) > 2000:
            raise AssertionError("nobody reads so much") from error
        if isinstance(error, JournalError) and not (error.path == path and str(error).startswith(f"{path}")):
            raise AssertionError("the file is not named") from error


def cases(recorded: tuple[Path, Path]) -> list[tuple[Path, int, tuple[Any, ...]]]:
    """Every place of the two recordings, the same place of records of one kind once."""
    found: dict[tuple[Any, ...], tuple[Path, int, tuple[Any, ...]]] = {}
    for path in recorded:
        for number, text in enumerate(bodies(path)):
            data = json.loads(text + "}")
            kind = data["input"]["type"] if "input" in data else f"header of {path.name}"
            for place in places(data):
                if place[0] != "decisions" or len(place) <= 3:
                    shape = ("#" if isinstance(key, int) else key for key in place)
                    found.setdefault((kind, *shape), (path, number, place))
    return list(found.values())


def write(target: Path, path: Path, number: int, change: Any) -> None:
    texts = bodies(path)
    texts[number] = change(texts[number])
    target.write_bytes(seal_texts(texts))


@pytest.mark.slow
@pytest.mark.behaviour("R13d")
@pytest.mark.parametrize("part", range(6))
def test_any_value_at_any_place_is_an_error_with_the_line_or_right(
    recorded: tuple[Path, Path], target: Path, part: int
) -> None:
    """Each field of the header and of each kind of record, with what nobody expects there."""
    chance = random.Random(part)
    digits = sys.get_int_max_str_digits()
    for path, number, place in cases(recorded)[part::6]:
        for name in chance.sample(list(EVIL), EACH):

            def change(text: str, place: Any = place, name: str = name) -> str:
                return body(put(json.loads(text + "}"), place, EVIL[name]))

            sys.set_int_max_str_digits(0)
            try:
                write(target, path, number, change)
            finally:
                sys.set_int_max_str_digits(digits)
            for reader in readers.LIBRARY:
                hold(reader, target)
            for command in chance.sample(readers.COMMANDS, 1):
                command(target)


NESTED = '{"$payload":' * 600 + "1" + "}" * 600

TEXTS = {
    "a reference in references": lambda text: text.replace('"text":"', f'"deep":{NESTED},"text":"', 1),
    "the input twice": lambda text: text.replace('"input":', '"input":{"type":"user_spoke","text":"x"},"input":', 1),
    "the input twice, the other way": lambda text: text + ',"input":{"type":"session_reset"}',
    "a text twice": lambda text: text.replace('"type":', '"type":"session_reset","type":', 1),
    "the number twice": lambda text: text.replace('"seq":', '"seq":1,"seq":', 1),
    "a number that is too large": lambda text: text.replace('"at":1790000000', '"at":1e999', 1),
    "no number": lambda text: text.replace('"at":1790000000', '"at":NaN', 1),
    "minus infinity": lambda text: text.replace('"at":1790000000', '"at":-Infinity', 1),
    "something behind it": lambda text: text + "}{",
    "a second value": lambda text: text + "},{",
    "blanks": lambda text: text.replace(",", " , ").replace(":", " : "),
    "no json": lambda text: "x" * len(text),
    "no text": lambda text: text.replace('"type"', '"ty\ud83dpe"', 1),
    "only brackets": lambda text: "[" * 100_000,
    "only objects": lambda text: '{"a":' * 100_000,
    "a list": lambda text: "[1,2",
    "a name that gives a terminal orders": lambda text: text.replace('"type"', '"\\u001b]0;x\\u0007\x9b31m"', 1),
    "a name that is long": lambda text: text.replace('"type"', f'"{"x" * 10_000}"', 1),
    "a key that is a number": lambda text: text.replace('"seq"', "1", 1),
    "another order": lambda text: body(dict(reversed(json.loads(text + "}").items()))),
}


@pytest.mark.behaviour("R13d")
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("reader", readers.EVERY, ids=lambda reader: reader.__name__)
def test_any_text_that_is_no_record_is_an_error_with_the_line_or_right(
    recorded: tuple[Path, Path], target: Path, name: str, reader: Any
) -> None:
    """As a text, since no data has a key twice or a number that is too large; of the header, and of a record."""
    for number in (0, 1):
        write(target, recorded[0], number, TEXTS[name])
        hold(reader, target)


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("blanks", "another order", "no text")])
def test_what_reads_whole_records_names_the_line(recorded: tuple[Path, Path], target: Path, name: str) -> None:
    write(target, recorded[0], 1, TEXTS[name])
    with pytest.raises(JournalDamagedError) as caught:
        replay(target)
    assert caught.value.line == 2


@pytest.mark.parametrize("name", ["blanks", "another order"])
def test_what_another_program_wrote_in_its_own_way_is_read_the_same(
    recorded: tuple[Path, Path], target: Path, name: str
) -> None:
    """Blanks and the order of fields mean nothing, also to a list, which reads no more than it has to."""
    write(target, recorded[0], 1, TEXTS[name] if name == "another order" else lambda t: t.replace('":', '" :'))
    (ours,), (theirs,) = list_sessions(recorded[0]), list_sessions(target)
    assert isinstance(ours, SessionInfo)
    assert isinstance(theirs, SessionInfo)
    assert (ours.turns, ours.title, ours.redacted, "") == (theirs.turns, theirs.title, theirs.redacted, theirs.damage)
    assert replay(target).state == replay(recorded[0]).state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: (file.unlink(), file.mkdir()), "missing or can't be read"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "missing or can't be read"),
        (lambda file: (file.unlink(), os.mkfifo(file)), "missing or can't be read"),
        (lambda file: file.write_bytes(b"x" * (3 << 20)), "was changed"),
    ],
    ids=["a directory", "a device", "a pipe", "another text"],
)
def test_a_payload_that_is_none_is_an_error_with_the_line(
    recorded: tuple[Path, Path], target: Path, change: Any, message: str
) -> None:
    """And nobody waits for a pipe, or reads what never ends."""
    target.write_bytes(recorded[0].read_bytes())
    (payload,) = directory_of(target).iterdir()
    change(payload)

    with pytest.raises(JournalDamagedError, match=message) as caught:
        replay(target)
    assert caught.value.line is not None
    for reader in readers.EVERY:
        hold(reader, target)


def test_a_payload_that_is_no_text_is_an_error(recorded: tuple[Path, Path], target: Path) -> None:
    content = b"\xff\xfe no text"
    name = sha256(content).hexdigest()
    (payload,) = directory_of(target).iterdir()
    (directory_of(target) / name).write_bytes(content)
    target.write_bytes(seal_texts([text.replace(payload.name, name) for text in bodies(recorded[0])]))

    with pytest.raises(JournalDamagedError, match="is no text"):
        replay(target)


# -------------------------------------------------------------------------------------------------------------- memory

LEAN = """
import resource, sys
from pathlib import Path
from tests.interpreters import readers
from cognition import CogstepError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for reader in readers.LIBRARY:
    try:
        reader(Path(sys.argv[1]))
    except CogstepError:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["header", "record", "torn"])
def test_a_damaged_line_of_50_megabytes_is_not_decoded(recorded: tuple[Path, Path], tmp_path: Path, where: str) -> None:
    """Its sum says so. Decoded, it would take 1.4 GB; what it takes is its own length, a few times over."""
    path = tmp_path / "x.jsonl"
    lines = recorded[0].read_bytes().splitlines(keepends=True)
    heavy = b"[[]" + b",[]" * (50_000_000 // 3) + b"]"
    if where == "header":
        path.write_bytes(b'{"format":"cogstep-journal","version":1,"x":' + heavy + b"}\n" + lines[1])
    elif where == "record":
        path.write_bytes(lines[0] + b'{"seq":1,"input":' + heavy + b',"decisions":[],"sum":"00000000"}\n' + lines[2])
    else:
        path.write_bytes(lines[0] + b'{"seq":1,"input":' + heavy)
    done = subprocess.run([sys.executable, "-c", LEAN, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 4 * path.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_a_line_longer_than_any_is_not_read_to_its_end(
    recorded: tuple[Path, Path], tmp_path: Path, first: bool
) -> None:
    """Of a file of many gigabytes (mostly holes) without line breaks, what a line may have at most."""
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        file.write(b"" if first else recorded[0].read_bytes().splitlines(keepends=True)[0])
        file.truncate(40 << 30)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotAJournalError if first else JournalDamagedError):
        readers.read(path)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 6 * LONGEST


# --------------------------------------------------------------------------------------------------------- no files


def test_what_is_no_file_is_said_to_be_none(tmp_path: Path) -> None:
    """A pipe is not waited for, and a device is not read."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), Path("/dev/zero")):
        for reader in (readers.read, readers.fold_again, readers.export, readers.fork):
            with pytest.raises(JournalError, match="and only a regular file is read"):
                reader(path)
        for reader in readers.EVERY:
            hold(reader, path)


def test_a_recording_through_a_pipe_says_what_to_do(recorded: tuple[Path, Path]) -> None:
    """``cat session.jsonl | cogstep replay /dev/stdin`` blamed the output."""
    with recorded[0].open("rb") as source:
        cat = subprocess.Popen(["cat"], stdin=source, stdout=subprocess.PIPE)
        done = subprocess.run(
            [sys.executable, "-m", "interpreters.cli.main", "replay", "/dev/stdin"],
            cwd=ROOT, stdin=cat.stdout, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert cat.stdout is not None
        cat.stdout.close()
        cat.wait()

    expected = "can't be read: it is a named pipe, and only a regular file is read; save it to one first"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cogstep: /dev/stdin: {expected}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="a file that can be opened and not be read, as Linux has one")
def test_a_file_that_fails_while_it_is_read_says_so(recorded: tuple[Path, Path], monkeypatch: Any) -> None:
    with pytest.raises(JournalError, match="line 1: can't be read: Input/output error"):
        JournalReader("/proc/self/mem")


def test_a_record_that_is_not_there_is_told(recorded: tuple[Path, Path]) -> None:
    with pytest.raises(CogstepError, match="there is no record -1"):
        replay(recorded[0], to=-1)
