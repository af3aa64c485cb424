"""What a message may be made of, and how a picture comes from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError, Image, TextPart
from cognition.values.content import LARGEST_IMAGE
from interpreters import load_image
from interpreters.loop.program.message_content import content_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
DOT = Image.of(PNG)


@pytest.mark.parametrize(
    ("content", "text", "parts"),
    [
        ("Hello", "Hello", ()),
        ("", "", ()),
        (["Hello"], "Hello", ()),
        (("one", "two"), "one\n\ntwo", ()),
        (TextPart("Hello"), "Hello", ()),
        (DOT, "", (DOT,)),
        ([DOT], "", (DOT,)),
        (["What is this?", DOT], "What is this?", (TextPart("What is this?"), DOT)),
        ([DOT, TextPart("and"), DOT, "alike?"], "and\n\nalike?", (DOT, TextPart("and"), DOT, TextPart("alike?"))),
    ],
)
def test_a_message_is_a_text_or_texts_and_pictures_in_their_order(content: Any, text: str, parts: Any) -> None:
    assert content_of(content) == (text, parts)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (3, "not 3"),
        (None, "not None"),
        (["a", 3], "not 3"),
        ([], "the list is empty"),
        ((), "the list is empty"),
        (PNG, "write Image.of"),
        (["a", PNG], "write Image.of"),
        (bytearray(PNG), "write Image.of"),
        (Path("x.png"), "write load_image"),
        (["a", Path("x.png")], "write load_image"),
        ({"type": "text", "text": "a"}, "not a dict"),
        ([{"type": "text", "text": "a"}], "not a dict"),
        ([["a"]], "not a list"),
        ({"a", "b"}, "not a set"),
        (iter(["a"]), "a text, or a list of texts and images"),
        (Image, "not the class Image"),
    ],
)
def test_what_is_no_message_is_refused_with_what_to_write(content: Any, said: str) -> None:
    with pytest.raises(ConfigError, match="run: a message") as caught:
        content_of(content)

    assert said in str(caught.value)


def test_a_picture_is_read_from_a_file_and_known_by_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"  # and is a PNG all the same
    file.write_bytes(PNG)
    (tmp_path / "link").symlink_to(file)

    assert load_image(file) == load_image(str(file)) == load_image(tmp_path / "link") == DOT


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.write(PNG)
        file.truncate(LARGEST_IMAGE + 1)


UNREADABLE = {
    "nothing there": (lambda path: None, "No such file"),
    "a directory": (lambda path: path.mkdir(), "directory"),
    "a pipe": (lambda path: os.mkfifo(path), "pipe"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "device"),
    "an empty file": (lambda path: path.write_bytes(b""), "no image of a kind that can be sent"),
    "a text": (lambda path: path.write_text("<svg></svg>"), "no image of a kind that can be sent"),
    "too large": (_large, "too large|too long|longer"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_is_no_picture_file_is_refused_with_its_name(what: str, tmp_path: Path) -> None:
    make, said = UNREADABLE[what]
    make(tmp_path / "x.png")

    with pytest.raises(ConfigError, match=said) as caught:
        load_image(tmp_path / "x.png")
    assert "x.png" in str(caught.value)


@pytest.mark.parametrize("path", ["a\0b", 3, None, PNG])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ConfigError):
        load_image(path)
