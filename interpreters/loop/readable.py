r"""What people read of a reply in a text protocol, while it comes: its answer, and none of the convention's syntax.

Text is shown as it comes and held back only from where a call, a fence around one or a marker may begin. What begins an
answer (``<response>``, or ``{"f": "`` at the reply's beginning) is left out, and the answer shown as it comes. Once a
call has begun, nothing more is shown until the reply's end says what it was; an object that turns out to be none of the
convention's is shown as the text that it is.

However a reply is cut into pieces, what is shown of it is the same: whatever is decided at a character, is decided by
that one and the few behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from cognition import FinishReason, ToolSpec
from cognition.text_protocol import Reading, read_text

SPACE = r"\s{0,32}"
"""White space within what begins an object. Of more than that, what stands before it is text."""
BEGINS_OBJECT = rf"""(?:```(?:json)?{SPACE})?(?:\[{SPACE})?\{{{SPACE}["'][taifcr]["']{SPACE}:"""
MAY_BEGIN_OBJECT = (
    rf"""`{{1,2}}|```(?:j|js|jso|json)?{SPACE}|(?:```(?:json)?{SPACE})?\[{SPACE}"""
    rf"""|(?:```(?:json)?{SPACE})?(?:\[{SPACE})?\{{{SPACE}(?:["'](?:[taifcr](?:["']{SPACE})?)?)?"""
)
TAGS = ("<tool>", "</tool>", "<args>", "</args>", "<response>", "</response>")


def _beginnings(*markers: str) -> str:
    """A pattern of what may become one of these."""
    return "|".join(re.escape(marker[:end]) for marker in markers for end in range(len(marker) - 1, 0, -1))


def _patterns(*markers: str, objects: bool) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """What is looked for: its first character, the whole of it, and a text that may become it."""
    whole, part = "|".join(map(re.escape, markers)), _beginnings(*markers)
    if objects:
        whole, part = f"{whole}|{BEGINS_OBJECT}", f"{part}|{MAY_BEGIN_OBJECT}"
    return re.compile(r"[<{\[`]" if objects else "<"), re.compile(whole), re.compile(part)


TEXT: Final = {
    "short_keys": _patterns("<response>", objects=True),
    "tool_tags": _patterns(*TAGS, objects=False),
}
ANSWER: Final = {
    "short_keys": _patterns("</response>", objects=True),
    "tool_tags": _patterns(*TAGS[:4], "</response>", objects=False),
}
REASONING: Final = {
    "short_keys": _patterns(*TAGS[4:], objects=True),
    "tool_tags": _patterns(*TAGS, objects=False),
}

ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


HEXADECIMAL = re.compile("u[0-9a-fA-F]{4}")


class Readable:
    """What is shown of one reply, or of its reasoning.

    Args:
        protocol: of the reply; not ``native``.
        tools: those that the model was told of, by name.
        reasoning: whether this is what the model thinks, where a call is none: it is left out, and what follows it is
            shown.
    """

    def __init__(
        self,
        protocol: Literal["short_keys", "tool_tags"],
        tools: Mapping[str, ToolSpec],
        *,
        reasoning: bool = False,
    ) -> None:
        self.protocol: Final = protocol
        self._tools = tools
        self._reasoning = reasoning
        self._patterns = (REASONING if reasoning else TEXT)[protocol]
        self._raw: list[str] = []
        self._shown: list[str] = []
        self._answer: list[str] | None = None
        """What was shown of an answer that is marked as one."""
        self._space: list[str] = []
        """White space that is shown once something follows it."""
        self._gap = ""
        """Parts an answer from what was shown before it."""
        self._pending = ""
        self._object: JsonObject | None = None
        self._closed = False
        """Nothing more is shown before the reply's end."""

    def feed(self, text: str) -> str:
        """The next piece of the reply; gives what is to be shown now."""
        if not self._reasoning:
            self._raw.append(text)
        if self._closed:
            return ""
        self._pending += text
        out: list[str] = []
        at: int | None = 0
        while at is not None and not self._closed:
            at = self._go_on(at, out)
        return "".join(out)

    def finish(self, finish_reason: FinishReason) -> str:
        """The reply has ended; gives what is to be shown besides."""
        if self._reasoning:
            rest, self._pending = self._pending, ""
            cut = finish_reason in ("length", "cancelled", "error")
            return "" if cut or self._object is not None else "".join((*self._space, rest))
        raw = "".join(self._raw)
        answer = read_text(self.protocol, raw, self._tools, finish_reason).answer
        before = "".join(self._shown if self._answer is None else self._answer)
        if answer.startswith(before):
            return answer[len(before) :]
        if not answer.strip() or (self._answer is not None and raw.startswith(answer)):
            return ""  # of an object with more keys than the convention has, what it says was shown
        return f"\n{answer}"

    def _go_on(self, at: int, out: list[str]) -> int | None:
        """Decide what the next characters are, those of ``_pending`` from ``at`` on; gives the place behind them, or
        None where that can't be said yet.
        """
        if self._object is not None:
            return self._in_object(self._object, at, out)
        text = self._pending
        first, whole, part = self._patterns
        start = first.search(text, at)
        if start is None:
            self._show(text[at:], out)
            self._pending = ""
            return None
        self._show(text[at : start.start()], out)
        at = start.start()
        found = whole.match(text, at)
        if found is not None:
            return self._begin(found, out)
        if part.fullmatch(text, at):
            self._pending = text[at:]
            return None
        self._show(text[at], out)
        return at + 1

    def _begin(self, opening: re.Match[str], out: list[str]) -> int:
        """A marker or the beginning of an object, which is left out; gives the place from which on to read."""
        what = opening[0]
        if what.startswith("<"):
            if self._reasoning:
                self._show(" ", out)
            elif what == "<response>":
                self._gap = "\n" if self._shown else ""
                self._patterns, self._answer, self._space = ANSWER[self.protocol], [], []
            else:
                self._closed = True
            return opening.end()
        if "'" in what and not self._reasoning:  # no JSON: the end will say what it is
            self._closed = True
        before = what[: what.index("{")]
        self._object = JsonObject(before, alone=not (self._reasoning or self._shown or self._answer is not None))
        return opening.start() + len(before)

    def _in_object(self, found: JsonObject, at: int, out: list[str]) -> int | None:
        text = self._pending
        end = found.feed(text, at)
        if found.answer:
            if self._answer is None:
                self._answer = []
            out += found.answer
            self._answer += found.answer
            found.answer.clear()
        if end is None:
            self._pending = ""
            return None
        self._object = None
        if found.alone or found.is_meant(self._tools):
            if self._reasoning:
                self._show(" ", out)
            self._closed = not self._reasoning
        else:
            self._show(found.before + found.text, out)
        return end

    def _show(self, text: str, out: list[str]) -> None:
        """Show text, without white space at its end and, in a marked answer, at its beginning."""
        kept = text.rstrip()
        if kept:
            if self._answer is None:
                shown = "".join((*self._space, kept))
                self._shown.append(shown)
            else:
                shown = "".join((*self._space, kept)) if self._answer else kept.lstrip()
                self._answer.append(shown)
            out += (self._gap, shown)
            self._gap = ""
            self._space.clear()
        if len(kept) < len(text):
            self._space.append(text[len(kept) :])


class JsonObject:
    """An object on its way: where it ends, and the text of its ``f`` as it comes.

    Args:
        before: what stands before its brace: a fence, a bracket.
        alone: whether it is all that the reply holds so far: the text of its ``f`` is given then.
    """

    def __init__(self, before: str, *, alone: bool) -> None:
        self.before = before
        self.alone = alone
        self.answer: list[str] = []
        """What came of the answer, for the caller to take."""
        self._parts: list[str] = []
        self._depth = 0
        self._in_text = False
        self._escape: str | None = None
        self._high = ""
        """The first half of a character that JSON writes as two."""
        self._at_key = True
        self._key: list[str] = []
        self._telling = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def feed(self, text: str, at: int) -> int | None:
        """More of it, from a place on; gives the place behind its closing brace, once that is there."""
        for position in range(at, len(text)):
            character = text[position]
            if self._in_text:
                self._text(character)
            elif character == '"':
                self._in_text = True
                if self._depth == 1 and self._at_key:
                    self._key.clear()
                elif self._depth == 1 and self.alone and self._key == ["f"]:
                    self._telling = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._parts.append(text[at : position + 1])
                    return position + 1
            elif self._depth == 1 and character in ":,":
                self._at_key = character == ","
        self._parts.append(text[at:])
        return None

    def is_meant(self, tools: Mapping[str, ToolSpec]) -> bool:
        """Whether it is an object of the convention, or can't be read and may be one."""
        return read_text("short_keys", self.text, tools) != Reading(answer=self.text)

    def _text(self, character: str) -> None:
        """A character within a text."""
        if self._escape is not None:
            self._escaped(character)
        elif character == "\\":
            self._escape = ""
        elif character == '"':
            self._in_text = False
            if self._telling:
                self._tell("")
                self._telling, self._key = False, ["f", "was told"]
        elif self._telling:
            self._tell(character)
        elif self._depth == 1 and self._at_key and len(self._key) < 2:
            self._key.append(character)

    def _escaped(self, character: str) -> None:
        """A character behind a backslash."""
        escape = f"{self._escape}{character}"
        if escape[0] == "u" and len(escape) < 5:
            self._escape = escape
            return
        self._escape = None
        if not self._telling:
            return
        if escape in ESCAPES:
            self._tell(ESCAPES[escape])
            return
        if HEXADECIMAL.fullmatch(escape) is None:  # broken: the reply's end says what was meant
            self._telling, self._key = False, ["f", "was told"]
            return
        code = int(escape[1:], 16)
        if 0xD800 <= code < 0xDC00:
            self._tell("")
            self._high = chr(code)
        elif self._high and 0xDC00 <= code < 0xE000:
            pair = (ord(self._high) - 0xD800) * 0x400 + (code - 0xDC00) + 0x10000
            self._high = ""
            self._tell(chr(pair))
        else:
            self._tell(chr(code))

    def _tell(self, text: str) -> None:
        self.answer.extend(part for part in (self._high, text) if part)
        self._high = ""
