"""The visible part of a streamed reply in a text protocol: the answer without the syntax of the convention.

Text is shown as it arrives, up to a place where a call, a fence around a call or a marker may begin. The start of an
answer (``<response>``, or ``{"f": "`` at the beginning of the reply) is omitted, and the answer is shown as it arrives.
Once a call has begun, the rest is shown only after the end of the reply has identified it. An object outside the
convention is shown as plain text.

The shown text does not depend on how the reply is cut into pieces. Each decision depends only on a character and the
few characters behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from cognition import FinishReason, ToolSpec
from cognition.parsing.text_protocol import ParsedReply, read_text

SPACE = r"\s{0,32}"
"""White space allowed inside the beginning of an object. With more, the characters before it are text."""
BEGINS_OBJECT = rf"""(?:```(?:json)?{SPACE})?(?:\[{SPACE})?\{{{SPACE}["'][taifcr]["']{SPACE}:"""
MAY_BEGIN_OBJECT = (
    rf"""`{{1,2}}|```(?:j|js|jso|json)?{SPACE}|(?:```(?:json)?{SPACE})?\[{SPACE}"""
    rf"""|(?:```(?:json)?{SPACE})?(?:\[{SPACE})?\{{{SPACE}(?:["'](?:[taifcr](?:["']{SPACE})?)?)?"""
)
TAGS = ("<tool>", "</tool>", "<args>", "</args>", "<response>", "</response>")


def _beginnings(*markers: str) -> str:
    return "|".join(re.escape(marker[:end]) for marker in markers for end in range(len(marker) - 1, 0, -1))


def _patterns(*markers: str, objects: bool) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return three patterns: the first character, the complete opening, and a text that may become an opening."""
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

SIGN = re.compile(r'["{}\[\]:,]')
INSIDE = re.compile(r'(?P<plain>[^"\\]+)|(?P<end>")|\\(?:u(?:(?P<code>[0-9a-fA-F]{4})|.{4})|(?P<letter>[^u]))', re.S)
"""The next part of a text: characters, its end, or an escape. A broken escape has no group."""


class ProtocolFilter:
    """The visible text of one reply, or of its reasoning.

    Args:
        protocol: protocol of the reply; not ``native``.
        tools: tools offered to the model, by name.
        reasoning: whether this is the model's reasoning. A call in it does not count: it is left out, and the text
            behind it is shown.
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
        """Text shown so far of an answer that is marked as an answer."""
        self._space: list[str] = []
        """White space that is shown once text follows it."""
        self._gap = ""
        """Separates an answer from the text shown before it."""
        self._pending = ""
        self._object: JsonObject | None = None
        self._closed = False
        """Whether the rest is shown only after the end of the reply."""

    def feed(self, text: str) -> str:
        """Take the next piece of the reply. Return the text to show now."""
        if not self._reasoning:
            self._raw.append(text)
        if self._closed:
            return ""
        self._pending += text
        out: list[str] = []
        at: int | None = 0
        while at is not None and not self._closed:
            at = self._scan(at, out)
        return "".join(out)

    def finish(self, finish_reason: FinishReason) -> str:
        """End the reply. Return the remaining text to show."""
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

    def _scan(self, at: int, out: list[str]) -> int | None:
        """Classify the characters of ``_pending`` from ``at`` on.

        Returns the position behind them, or None if more text is necessary.
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
        """Begin a marker or an object, which is not shown. Return the position from where to continue."""
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
        """Show text without trailing white space; in a marked answer also without leading white space."""
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
    """A partial JSON object: finds its end, and the text of its ``f`` as it arrives.

    Args:
        before: text before the brace: a fence, a bracket.
        alone: whether the object is the whole reply so far. Only then is the text of ``f`` returned.
    """

    def __init__(self, before: str, *, alone: bool) -> None:
        self.before = before
        self.alone = alone
        self.answer: list[str] = []
        self._parts: list[str] = []
        self._unread = ""
        """The beginning of an escape that is not complete yet."""
        self._depth = 0
        self._in_text = False
        self._high = ""
        """First half of a surrogate pair."""
        self._at_key = True
        self._key = ""
        self._telling = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def feed(self, text: str, at: int) -> int | None:
        """Take more text from position ``at`` on. Return the position behind the closing brace, or None if it is
        missing.
        """
        text, start = self._unread + text[at:], at - len(self._unread)
        self._parts.append(text[len(self._unread) :])
        place = 0
        while found := INSIDE.match(text, place) if self._in_text else SIGN.search(text, place):
            place = found.end()
            if self._in_text:
                self._read_text(found)
            elif found[0] == '"':
                self._in_text = True
                if self._depth == 1 and self._at_key:
                    self._key = ""
                elif self._depth == 1:
                    self._telling = self.alone and self._key == "f"
            elif found[0] in ":,":
                self._at_key = found[0] == "," if self._depth == 1 else self._at_key
            else:
                self._depth += 1 if found[0] in "{[" else -1
                if self._depth == 0:
                    self._parts[-1] = text[len(self._unread) : place]
                    return start + place
        self._unread = text[place:] if self._in_text else ""
        return None

    def is_meant(self, tools: Mapping[str, ToolSpec]) -> bool:
        """Whether the object belongs to the convention, or is unreadable and may belong to it."""
        return read_text("short_keys", self.text, tools) != ParsedReply(answer=self.text)

    def _read_text(self, part: re.Match[str]) -> None:
        kind, text = part.lastgroup, part[0]
        if kind == "end":
            self._in_text, text = False, ""
        if not self._telling:
            if kind == "plain" and self._depth == 1 and self._at_key:
                self._key += text
            return
        if kind == "code":
            text = chr(int(part["code"], 16))
            if self._high and "\udc00" <= text < "\ue000":
                text, self._high = (self._high + text).encode("utf-16", "surrogatepass").decode("utf-16"), ""
        elif kind == "letter":
            text = ESCAPES.get(part["letter"], "")
        if kind is None or (kind == "letter" and not text):  # broken: the reply's end says what was meant
            self._telling, self._key = False, ""
            return
        high = text if "\ud800" <= text < "\udc00" and kind == "code" else ""
        self.answer += filter(None, (self._high, "" if high else text))
        self._high = high
        if kind == "end":
            self._telling, self._key = False, ""
