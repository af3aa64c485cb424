"""What a command prints, as it is kept and shown: by examples and by property, without any process."""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from interpreters.toolbox.shell._output import (
    CommandOutput,
    OutputFile,
    OutputFolder,
    Ticker,
    fit_text,
    incomplete_character,
    visible,
)

pieces = st.lists(
    st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")), max_size=30
)
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(printed=pieces, shown=st.integers(100, 400))
def test_what_is_shown_is_bounded_and_steers_nothing(printed: list[bytes], shown: int) -> None:
    output = CommandOutput(shown, None)
    for piece in printed:
        output.add(piece)

    text, where = output.take(last=True)

    assert CONTROL.search(text) is None
    marker = re.search(r"\n\[\.\.\. [0-9,]+ of [0-9,]+ bytes are left out here \.\.\.\]\n", text)
    assert len(text) - (0 if marker is None else len(marker[0])) <= shown
    whole = visible(b"".join(printed).decode("utf-8", "surrogateescape"))
    assert (marker is None) == (len(whole) <= shown) == (where == "")
    assert marker is not None or text == whole


@given(text=st.text(max_size=100), cuts=st.lists(st.integers(0, 400), max_size=10))
def test_pieces_that_are_taken_join_to_the_whole(text: str, cuts: list[int]) -> None:
    """A character that is cut in two waits for its end, in what is taken and in what is told as progress."""
    data = text.encode()
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    output, ticker, taken, told = CommandOutput(1000, None), Ticker(), "", ""
    for start, end in pairwise(ends):
        output.add(data[start:end])
        ticker.add(data[start:end])
        taken += output.take(last=end == len(data))[0]
        told += ticker.take(last=end == len(data))

    assert not re.search(r"\\x[89a-f]", taken) or re.search("[\x80-\xff]", text)
    if text.isprintable():
        assert (taken, told) == (visible(text), visible(text))


@pytest.mark.parametrize(
    ("data", "waits"),
    [
        (b"", b""),
        (b"a", b""),
        ("é".encode(), b""),
        (b"a\xc3", b"\xc3"),
        (b"\xe2\x82", b"\xe2\x82"),
        ("€".encode(), b""),
        (b"\xf0\x9f\x98", b"\xf0\x9f\x98"),
        ("😀".encode(), b""),
        (b"\x80\x80\x80\x80", b""),
        (b"\xff", b"\xff"),
    ],
)
def test_what_begins_a_character(data: bytes, waits: bytes) -> None:
    assert incomplete_character(data) == waits


def test_both_ends_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    """The numbers add up to what came, and the file holds all of it."""
    output = CommandOutput(100, OutputFolder(tmp_path))
    data = b"".join(b"%06d\n" % number for number in range(10_000))
    for start in range(0, len(data), 999):
        output.add(data[start : start + 999])
    output.close()

    text, where = output.take(last=True)
    head, marker, tail = re.split(r"\n(\[\.\.\..*\.\.\.\])\n", text)

    missing = int(re.search(r"\d+,\d+", marker)[0].replace(",", ""))  # type: ignore[index]
    assert data.decode().startswith(head)
    assert data.decode().endswith(tail)
    assert len(head) + missing + len(tail) == len(data) == output.total
    assert Path(output.path).read_bytes() == data
    assert where.startswith(f"all of it is in the file {output.path}: read parts")


def test_a_short_output_makes_no_file_and_one_that_needs_many_escapes_does(tmp_path: Path) -> None:
    """What counts is what is shown."""
    output = CommandOutput(100, OutputFolder(tmp_path))
    output.add(b"\x01" * 100)
    assert list(tmp_path.iterdir()) == []

    assert "76 of 100 bytes are left out" in output.take(last=True)[0]
    output.close()
    assert Path(output.path).read_bytes() == b"\x01" * 100


def test_a_file_is_its_owner_s_and_stops_at_its_limit(tmp_path: Path) -> None:
    file = OutputFile(OutputFolder(tmp_path), 10)
    file.write(b"123456")
    file.write(b"789012345")
    file.write(b"more")
    file.close()
    file.close()

    assert Path(file.path).read_bytes() == b"1234567890"
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600
    assert "only its beginning" in file.problem


def test_a_file_that_can_not_be_made_or_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    lost = CommandOutput(100, OutputFolder(gone))
    gone.rmdir()
    lost.add(b"x" * 1000)
    assert "what is left out is not kept: its file can't be made: No such file or directory" in lost.take(last=True)[1]
    lost.close()

    full = CommandOutput(100, OutputFolder(tmp_path))
    full.add(b"x" * 1000)

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("interpreters.toolbox.shell._output.os.write", write)
    full.add(b"x" * 1000)
    _, where = full.take(last=True)
    full.close()
    assert f"all of it is in the file {full.path}, but the file holds only its beginning: No space left" in where


@given(text=st.text(max_size=60), room=st.integers(0, 40))
def test_what_fits_is_an_end_and_fits(text: str, room: int) -> None:
    start, end = fit_text(text, room), fit_text(text, room, backwards=True)

    assert text.startswith(start)
    assert text.endswith(end)
    assert len(visible(start)) <= room
    assert len(visible(end)) <= room


def test_progress_is_the_newest(tmp_path: Path) -> None:
    ticker = Ticker()
    for number in range(10_000):
        ticker.add(b"%d\n" % number)

    told = ticker.take()
    assert len(told) == Ticker.LONGEST
    assert told.endswith("9998\n9999\n")
    assert ticker.take(last=True) == ""
