"""Texts that would do something to a terminal or to whoever reads it, and what may stand on a screen all the same."""

from __future__ import annotations

import re
import unicodedata

from interpreters.cli.screen.terminal import COLOURS, ERASE_LINE, RESET

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[1;1H",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x1b\\",
    "our own colour": "\x1b[31mred\x1b[0m",
    "C1": "\x9b31m\x90q\x9c\x85",
    "DEL and backspace": "safe\x7f\b\b\b\bevil",
    "carriage return": "safe\revil",
    "CRLF": "one\r\ntwo",
    "line break": "one\ncogstep: everything is fine",
    "200 line breaks": "\n" * 200,
    "other line breaks": "a\vb\fc\x1cd\x1ee\u2028f\u2029g",
    "tabs": "a\tb",
    "zero": "a\0b",
    "right to left": "exe.\u202efdp",
    "isolates": "\u2066a\u2069\u2067b\u2068c\u202a\u202b\u202c\u202d",
    "marks": "a\u200eb\u200fc\u061cd",
    "no width": "pay\u200bpal\u2060\ufeff\xad",
    "joiners": "pay\u200dpal\u200c",
    "tags": "a\U000e0069\U000e0067\U000e007f",
    "selectors": "a\ufe0fb\ufe00\U000e0100",
    "fillers": "a\u3164b\u115f\uffa0\u034f",
    "surrogates": "\ud83d\udc80a\ud83d",
    "private": "\ue000\uffff\U0010ffff",
    "100,000 letters": "x" * 100_000,
    "100,000 escapes": "\x1b" * 100_000,
}
"""Another text is one more line."""

OWN = re.compile("|".join(map(re.escape, (*filter(None, COLOURS.values()), RESET, ERASE_LINE))))
"""The only sequences that we write, and only to a terminal."""

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""C0 without tab and line feed, DEL, and C1, which some terminals obey as well."""

UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff\u200b-\u200f\u2028-\u202e\u2060-\u206f]"
)


def offences(written: bytes, encoding: str, *, on_terminal: bool, lines: bool) -> list[str]:
    """What stands in this output and must not, as code points.

    Args:
        written: every byte of a stream.
        encoding: the stream's.
        on_terminal: whether the stream is a terminal, which gets our own sequences.
        lines: whether tabs may stand in it.
    """
    text = written.decode(encoding)  # strictly: what is written can be read
    text = OWN.sub("", text) if on_terminal else text
    return [
        f"U+{ord(char):04X}"
        for char in sorted(set(text) - set("\n\t" if lines else "\n"))
        if UNSEEN.match(char) or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    ]
