"""Redaction between a session and its recording: hides secrets from the core and reveals them in decisions.

    user, model, tools ── input ──▶ hide ──▶ step, journal ──▶ reveal ──▶ model, tools, user

The core works with placeholders such as ``[redacted:api_key:1]``, one per secret. Therefore:

- A replay of the recorded inputs gives the live state to the byte.
- Every decision can be verified from the recording alone.
- The approved call is the call that runs.

The model and the tools receive the real text, which exists only in memory. A text that looks like a placeholder is
hidden too. So ``reveal`` restores exactly the hidden text, and writing a placeholder does not reveal a secret.

After the end of the process only placeholders remain, except for secrets that the program passes again by name.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import Any, TypeVar, get_args

from attrs import fields, frozen

from cognition import CallModel, History, Message, ModelRequest
from interpreters.recording._visit import collect, copy_with, has_same_items, map_texts
from interpreters.recording.redaction import Found, Redaction, merge_overlaps
from interpreters.recording.secrets.encodings import KnownSecrets, forms_of

PLACEHOLDER = re.compile(r"\[redacted:[A-Za-z0-9_.-]+(?::[a-z0-9]+)?\]")
NUMBERED = re.compile(rb"\[redacted:[A-Za-z0-9_.-]+:([0-9]{1,18})(?:w[0-9a-fx]+)?n?\]")
BEGINNING = "[redacted:"
NUMBER = re.compile(r'"(\[redacted:[A-Za-z0-9_.-]+:[0-9]*(?:w[0-9a-fx]+)?n\])"')
"""Placeholder for a JSON number: a string, so that the text stays valid JSON."""

JSON_FIELDS = frozenset({"arguments_json", "returns", "response_format"})
"""Fields with JSON as text. Their strings are examined one by one, so that the text stays valid JSON."""

STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
SYNTAX = re.compile(r"(?:[\s\[\]{}:,]|true|false|null)*")
"""JSON text between strings and numbers."""
UNIT = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
"""The notation of one character in a JSON string."""

MANY = 20
"""Texts of a value, of which repeated ones are searched once: those of a conversation that a fork begins with."""

SHORT = 200
"""Maximum length of a text whose secrets are cached."""
REMEMBERED = 500
"""Maximum number of cached texts."""

V = TypeVar("V")


@frozen
class RedactionNote:
    """Hidden secrets of one kind in one field of an input."""

    field: str
    kind: str
    count: int

    def data(self) -> dict[str, Any]:
        return {"field": self.field, "kind": self.kind, "count": self.count}


class Redactor:
    """Hides and reveals the secrets of one session.

    Args:
        redaction: defines the secrets; None: only texts hidden by an earlier process count as secrets.
        after: highest placeholder number already in the recording.
        keep: texts that are not changed, such as names of tools.
        literal: whether a text that looks like a placeholder is hidden as a literal, so that writing a placeholder
            reveals no secret. False: it counts as a placeholder of a secret unknown to this process.
    """

    def __init__(
        self, redaction: Redaction | None, *, after: int = 0, keep: frozenset[str] = frozenset(), literal: bool = True
    ) -> None:
        self._redaction = redaction
        self._count = after
        self._keep = keep
        self._literal = literal
        self._lane = ""
        self._texts: dict[str, str] = {}
        """The secret of each placeholder."""
        self._placeholders: dict[str, str] = {}
        """The placeholder of each secret."""
        self._adopted: set[str] = set()
        """Placeholders created by another process."""
        known = {} if redaction is None else redaction.secrets
        for name, text in known.items():
            for form, written in forms_of(text):
                self._texts[f"[redacted:{name}{form}]"] = written
                self._placeholders.setdefault(written, f"[redacted:{name}{form}]")
        self._writings = KnownSecrets(known)
        for number, name in self._writings.numbers.items():
            self._texts[f"[redacted:{name}:n]"] = number
        self._looked_at: dict[tuple[str, bool], tuple[Found, ...]] = {}
        """Cached findings in short texts, since names and values of arguments repeat often."""
        self._shown = _ModelView(lambda value: map_texts(value, self._reveal_text))

    def hide(self, value: V) -> tuple[V, tuple[RedactionNote, ...]]:
        """Return the value with placeholders for its secrets, and a note of each hidden secret."""
        return self.hide_now(value) if self.may_hide(value) else (value, ())

    def hide_now(self, value: V) -> tuple[V, tuple[RedactionNote, ...]]:
        """``hide`` for a value if ``may_hide`` returned True."""
        found: dict[tuple[str, str], int] = {}

        def change(text: str, place: str) -> str:
            def note(kind: str) -> None:
                found[place, kind] = found.get((place, kind), 0) + 1

            is_json = place.rpartition(".")[2] in JSON_FIELDS
            return self._hide_json(text, note) if is_json else self._hide_text(text, note)

        hidden = map_texts(value, change)
        return hidden, tuple(RedactionNote(place, kind, count) for (place, kind), count in found.items())

    def may_hide(self, value: object) -> bool:
        """Whether a value may contain a secret, so that ``hide`` examines it. False: it contains none."""
        if self._redaction is None:
            return False
        texts: list[str] = []
        collect(value, texts)
        return bool(texts) and self._may_be_in(self._redaction, texts)

    def reserve_numbers(self, number: int) -> None:
        """Reserve placeholder numbers up to this one, because another process has used them."""
        self._count = max(self._count, number)

    def set_number_suffix(self, lane: str) -> None:
        """Add ``lane``, a text of ``0-9a-fx``, to each number from now on.

        Other processes number at the same time. Without lanes, two secrets could share a placeholder after a merge.
        """
        self._lane = f"w{lane}"

    def adopt(self, value: object) -> None:
        """Accept the placeholders in a value from another process, whose secrets are unknown here.

        ``hide`` replaces them by numbers of this redactor, since its own secrets may have the same numbers.
        """

        def look(text: str, _place: str) -> str:
            self._adopted.update(PLACEHOLDER.findall(text))
            return text

        map_texts(value, look)
        self._looked_at.clear()

    def _may_be_in(self, redaction: Redaction, texts: list[str]) -> bool:
        text = "\0".join(texts if len(texts) < MANY else dict.fromkeys(texts))
        if BEGINNING in text or ("\\" in text and ("\\u" in text or "\\/" in text)):
            return True  # a placeholder, or letters and slashes as JSON may write them: it has to be read to be known
        if self._writings.has_unencoded(text) or redaction.may_be_in(text):
            return True
        return self._writings.may_be_in(text) and any(map(self._writings.find_secrets, texts))

    def reveal(self, value: V) -> V:
        """Return the value with placeholders replaced by known secrets, exactly as they were hidden."""
        if not self._texts:
            return value
        if isinstance(value, CallModel):
            request = self._shown.request(value.request)
            return value if request is value.request else copy_with(value, {"request": request})
        if type(value) is tuple:  # the decisions of a step: one of them may be a request, with the conversation
            hidden: Any = value
            shown: Any = tuple([self.reveal(one) for one in hidden])
            return value if has_same_items(shown, hidden) else shown
        if isinstance(value, MESSAGES):
            known: V = self._shown.message(value)
            return known
        return map_texts(value, self._reveal_text)

    def lacks(self, value: object) -> bool:
        """Whether a value contains placeholders with unknown secrets, from a process that has ended."""
        texts: list[str] = []
        collect(value, texts)
        named = (name for text in texts if BEGINNING in text for name in PLACEHOLDER.findall(text))
        return any(name not in self._texts or self._texts[name] in self._adopted for name in named)

    def _reveal_text(self, text: str, _place: str) -> str:
        if BEGINNING not in text:
            return text
        if 'n]"' in text:
            text = NUMBER.sub(lambda match: self._texts.get(match[1], match[0]), text)
        return PLACEHOLDER.sub(lambda match: self._texts.get(match[0], match[0]), text)

    def _hide_text(self, text: str, note: Callable[[str], None]) -> str:
        found = self._find(text)
        if not found:
            return text
        return self._replace(found, lambda start, end: text[start:end], len(text), note)

    def _hide_json(self, text: str, note: Callable[[str], None]) -> str:
        """Return JSON text with the secrets in its strings hidden. ``reveal`` restores it to the byte.

        Some secrets are recognizable only by the name before them. These are found in the whole text, and each counts
        only as far as it is inside one string.
        """
        redaction = self._redaction
        shaped = [] if redaction is None else merge_overlaps(redaction.find_shapes(text))
        pieces, end = [], 0
        for match in STRING.finditer(text):
            between = text[end : match.start()]
            pieces.append(between if SYNTAX.fullmatch(between) else self._hide_text(between, note))
            pieces.append(self._hide_json_value(match, shaped, note))
            end = match.end()
        rest = text[end:]
        pieces.append(rest if SYNTAX.fullmatch(rest) else self._hide_text(rest, note))
        return "".join(pieces)

    def _hide_json_value(self, match: re.Match[str], shaped: list[Found], note: Callable[[str], None]) -> str:
        """Hide secrets in a JSON string or number. ``shaped`` contains the findings in the whole text, from this value
        on.
        """
        while shaped and shaped[0].end <= match.start():
            del shaped[0]
        if match[0][0] != '"':
            kind = shaped[0].kind if shaped and shaped[0].start < match.end() else ""
            return self._hide_json_number(match[0], kind, note)
        raw = match[0][1:-1]
        begin, end = match.start() + 1, match.end() - 1
        inside = [
            Found(max(one.start, begin) - begin, min(one.end, end) - begin, one.kind)
            for one in takewhile(lambda one: one.start < end, shaped)
            if one.end > begin
        ]
        units: Sequence[str] = raw
        """How each character is written."""
        text = raw
        if "\\" in raw:
            units = UNIT.findall(raw)
            places = list(accumulate(map(len, units), initial=0))
            inside = [
                Found(bisect_right(places, one.start) - 1, bisect_left(places, one.end), one.kind) for one in inside
            ]
            text = "".join(map(_character, units))
        found = self._find(text, inside, ends=False)
        if not found:
            return match[0]
        return f'"{self._replace(found, lambda start, end: "".join(units[start:end]), len(units), note)}"'

    def _hide_json_number(self, raw: str, kind: str, note: Callable[[str], None]) -> str:
        numbers = self._writings.numbers
        kind = numbers.get(raw) or next((name for number, name in numbers.items() if number in raw), kind)
        if not kind:
            return raw
        note(kind)
        if raw in numbers:
            return f'"[redacted:{kind}:n]"'
        return f'"{self._placeholder(f"number {raw}", raw, kind, "n")}"'

    def _replace(
        self, found: list[Found], raw: Callable[[int, int], str], length: int, note: Callable[[str], None]
    ) -> str:
        pieces, end = [], 0
        for one in found:
            note(one.kind)
            secret = raw(one.start, one.end)
            pieces += [raw(end, one.start), self._placeholder(secret, secret, one.kind)]
            end = one.end
        return "".join((*pieces, raw(end, length)))

    def _placeholder(self, key: str, secret: str, kind: str, mark: str = "") -> str:
        known = self._placeholders.get(key)
        if known is None:
            self._count += 1
            known = self._placeholders[key] = f"[redacted:{kind}:{self._count}{self._lane}{mark}]"
            self._texts[known] = secret
        return known

    def _find(self, text: str, shaped: list[Found] | None = None, *, ends: bool = True) -> list[Found]:
        """Return the secrets of a text in order.

        These are secrets known by name and texts that look like placeholders, then secrets found by shape outside of
        those. ``shaped`` adds findings.
        """
        redaction = self._redaction
        if redaction is None or text in self._keep:
            return []
        if shaped or len(text) > SHORT or redaction.find is not None:  # of which nobody knows what it goes by
            return self._search(redaction, text, shaped, ends)
        known = self._looked_at.get((text, ends))
        if known is None:
            if len(self._looked_at) >= REMEMBERED:
                self._looked_at.clear()
            known = self._looked_at[text, ends] = tuple(self._search(redaction, text, None, ends))
        return list(known)

    def _search(self, redaction: Redaction, text: str, shaped: list[Found] | None, ends: bool) -> list[Found]:
        found = [*redaction.find_secrets(text), *(shaped or ())]
        fixed = self._writings.find_secrets(text, ends=ends)
        if BEGINNING in text:
            fixed += [Found(*match.span(), self._kind_of(match[0])) for match in PLACEHOLDER.finditer(text)]
        if not fixed:
            return merge_overlaps(found) if shaped else found
        fixed = merge_overlaps(fixed)
        return sorted([*fixed, *_subtract(merge_overlaps(found), fixed)], key=lambda one: one.start)

    def _kind_of(self, placeholder: str) -> str:
        """Return the kind of a text that looks like a placeholder; ``literal`` if it belongs to no secret."""
        if self._literal and placeholder not in self._adopted:
            return "literal"
        return placeholder[len(BEGINNING) : -1].partition(":")[0]


def _subtract(found: list[Found], fixed: list[Found]) -> Iterator[Found]:
    """Yield the parts of ``found`` outside of ``fixed``. Both are in order and without overlaps."""
    for one in found:
        start = one.start
        for other in fixed[bisect_right(fixed, start, key=lambda other: other.end) :]:
            if other.start >= one.end:
                break
            if start < other.start:
                yield Found(start, other.start, one.kind)
            start = other.end
        if start < one.end:
            yield Found(start, one.end, one.kind)


class _ModelView:
    """Requests as the model sees them, computed from the previous request.

    The cost does not grow with the length of the conversation, and the parts before the messages are revealed once. If
    there is nothing to reveal, the result is the request object itself.
    """

    def __init__(self, reveal: Callable[[Any], Any]) -> None:
        self._reveal = reveal
        self._hidden = self._shown = EMPTY
        """The previous conversation, hidden and revealed. Both are the same object while they are equal."""
        self._head: tuple[Any, ...] = ()
        """The parts of the previous request other than messages."""
        self._bare: ModelRequest | None = None
        """The same parts revealed; None if they are unchanged."""
        self._newest: tuple[tuple[Any, Any], ...] = ()
        """The newest messages and their revealed versions. Observers need the same messages as the request."""

    def message(self, message: Any) -> Any:
        for hidden, shown in self._newest:
            if hidden is message:
                return shown
        shown = self._reveal(message)
        self._newest = ((message, shown), *self._newest[:3])
        return shown

    def request(self, request: ModelRequest) -> ModelRequest:
        head = HEAD(request)
        if not self._head or not has_same_items(head, self._head):
            self._head = head
            hidden = copy_with(request, {"messages": EMPTY})
            shown = self._reveal(hidden)
            self._bare = None if shown is hidden else shown
        messages = self.history(request.messages)
        if self._bare is None and messages is request.messages:
            return request
        return copy_with(self._bare or request, {"messages": messages})

    def history(self, messages: History) -> History:
        if not messages.continues(self._hidden):
            self._hidden = self._shown = EMPTY
        added = messages[len(self._hidden) :]
        shown = [self.message(message) for message in added]
        self._shown = (
            messages if self._shown is self._hidden and has_same_items(shown, added) else self._shown.append(*shown)
        )
        self._hidden = messages
        return self._shown


EMPTY = History()
MESSAGES = get_args(Message)
HEAD = attrgetter(*(one.name for one in fields(ModelRequest) if one.name != "messages"))


def _character(unit: str) -> str:
    if len(unit) == 1:
        return unit
    if len(unit) == 12:
        return chr(0x10000 + (int(unit[2:6], 16) - 0xD800) * 0x400 + int(unit[8:], 16) - 0xDC00)
    return chr(int(unit[2:], 16)) if len(unit) == 6 else ESCAPES.get(unit[1], unit[1])


ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def looks_like(hidden: str, text: str) -> bool:
    """Whether ``text`` may be the original of ``hidden``."""
    if BEGINNING not in hidden:
        return hidden == text
    return re.fullmatch(".+".join(map(re.escape, PLACEHOLDER.split(hidden))), text, re.DOTALL) is not None
