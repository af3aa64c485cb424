"""Prevents duplicate keys in an object: a grammar does not remember the keys that it accepted.

This matters only if a schema leaves keys open (``additionalProperties``, ``patternProperties``, any object). The text
is followed from the call's beginning, in the format's notation. A token that would complete a duplicate key is refused,
and another is sampled.
"""

from __future__ import annotations

import codecs
import contextlib
import json
from copy import copy

from attrs import define, evolve, field

from cognition.parsing import CallFormat, FormatSpec, ParameterMarkers, advance, start
from cognition.parsing.call_builder import find_name
from cognition.parsing.literals import CLOSERS
from cognition.parsing.markers import Markers
from cognition.parsing.state import InCall, InReasoning, InSection, ParserState
from cognition.parsing.typed_values import ANY_TYPE, ParameterTypes

CLOSING = frozenset(CLOSERS.values())


@define
class Brackets:
    """Follows JSON, Python literals and Gemma's objects: finds their keys by brackets, commas and quotes."""

    quotes: tuple[str, ...] = ('"',)
    """The quotation marks around strings."""
    escapes: bool = True
    """Whether a backslash in a string escapes the next character."""
    repeated: bool = False
    """Whether a key occurred twice."""
    _objects: tuple[frozenset[str] | None, ...] = ()
    """The keys of each open object; None for a list."""
    _key: str | None = None
    """The part of a key so far; None if a key is not expected."""
    _quote: str = ""
    """The quotation mark that ends the current string; empty outside of strings."""
    _escaped: bool = False
    """Whether a backslash precedes the next character."""
    _held: str = ""
    """The end of the text, if it may begin a quotation mark of several characters."""
    _free: Markers = field(init=False)
    _quoted: dict[str, Markers] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._free = Markers((*CLOSERS, *CLOSING, ",", ":", "=", *self.quotes))
        self._quoted = {quote: Markers((quote, "\\") if self.escapes else (quote,)) for quote in self.quotes}

    @property
    def closer(self) -> str:
        """The text that would end the current key; empty without a key."""
        return "" if self._key is None or self._escaped else self._quote[len(self._held) :] or ":"

    def read(self, text: str) -> None:
        """Continue with this text."""
        text, at = self._held + text, 0
        while at < len(text):
            if self._escaped:
                self._add(text[at])
                self._escaped, at = False, at + 1
                continue
            end, sign = (self._quoted[self._quote] if self._quote else self._free).next(text, at)
            self._add(text[at:end])
            at = end + len(sign)
            if not sign:
                break
            self._take(sign)
        self._held = text[at:]

    def _add(self, text: str) -> None:
        if self._key is not None:
            self._key += text

    def _take(self, sign: str) -> None:
        if self._quote:
            if sign != self._quote:  # a backslash
                self._add(sign)
                self._escaped = True
            else:
                self._quote = ""
                self._end_key(unescaped=True)
        elif sign in self._quoted:
            if self._objects:  # else it stands in text around the call
                self._quote, self._key = sign, None if self._key is None else ""
        elif sign in CLOSERS:
            in_list = sign == "["
            self._objects, self._key = (*self._objects, None if in_list else frozenset()), None if in_list else ""
        elif sign in CLOSING:
            self._objects, self._key = self._objects[:-1], None
        elif sign == ",":
            self._key = "" if self._objects and self._objects[-1] is not None else None
        else:  # behind a key without quotes
            self._end_key(unescaped=False)

    def _end_key(self, *, unescaped: bool) -> None:
        if self._key is None:
            return
        key, keys = self._key if unescaped else self._key.strip(), self._objects[-1] or frozenset()
        if "\\" in key and self.escapes:
            with contextlib.suppress(ValueError):  # one of Python's escapes, which stays as it is written
                key = json.loads(f'"{key}"')
        self.repeated = self.repeated or key in keys
        self._objects, self._key = (*self._objects[:-1], keys | {key}), None


@define
class Tags:
    """Follows parameters between markers. Their values may be JSON with keys."""

    calls: CallFormat
    markers: ParameterMarkers
    types: ParameterTypes
    """The types of the offered tools' parameters."""
    repeated: bool = False
    """Whether a key occurred twice."""
    _keys: frozenset[str] = frozenset()
    _role: str = "outside"
    """The next part: ``outside`` of parameters, a ``key``, the ``type`` of a value, or a ``value``."""
    _head: str = ""
    """The text before the parameters, which contains the name."""
    _held: str = ""
    """The part of a key or type so far, or the end of the text, if it may begin a marker."""
    _value: Brackets | None = None
    """A value in JSON; None for a value that is or may be text."""
    _outside: Markers = field(init=False)
    _inside: Markers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._outside = Markers((self.markers.key_start, self.calls.end))
        self._inside = Markers((self.markers.value_end,))

    @property
    def closer(self) -> str:
        """The text that would end the current key; empty without a key."""
        if self._role == "key":
            return self.markers.key_end
        return "" if self._value is None else self._value.closer

    def read(self, text: str) -> None:
        """Continue with this text."""
        text, at = self._held + text, 0
        self._value = copy(self._value)
        while True:
            if self._role == "key":
                end = text.find(self.markers.key_end, at)
                if end < 0:
                    break
                key, at = text[at:end].strip(), end + len(self.markers.key_end)
                self.repeated = self.repeated or key in self._keys
                self._keys |= {key}
                if self.markers.string_mark:
                    self._role = "type"
                else:
                    self._role, self._value = "value", Brackets() if self._is_json(key) else None
                continue
            if self._role == "type":
                end = text.find(self.markers.value_start, at)
                if end < 0:
                    break
                is_text, at = self.markers.string_mark in text[at:end], end + len(self.markers.value_start)
                self._role, self._value = "value", None if is_text else Brackets()
                continue
            end, marker = (self._inside if self._role == "value" else self._outside).next(text, at)
            if self._value is not None:
                self._value.read(text[at:end])
                self.repeated, self._value.repeated = self.repeated or self._value.repeated, False
            elif self._role == "outside" and not self._keys:
                self._head += text[at:end]
            at = end + len(marker)
            if not marker:
                break
            if self._role == "value":
                self._role, self._value = "outside", None
            elif marker == self.calls.end:
                self._keys, self._head = frozenset(), ""
            else:
                self._role = "key"
        self._held = text[at:]

    def _is_json(self, key: str) -> bool:
        """Return whether a parameter is JSON in the called tool, or if that is unknown, in all tools that have it.

        If the start marker came in many tokens, its end may be in the text before the name.
        """
        head = self._head.rpartition(self.calls.name_start or self.calls.start)[2]
        head = head.partition(self.calls.name_end)[0] if self.calls.name_end else head
        name = find_name(self.calls, head)
        called = max((tool for tool in self.types if name.endswith(tool)), key=len, default=None)
        known = self.types.values() if called is None else [self.types[called]]
        found = [types[key] for types in known if key in types]
        return bool(found) and not any(not types or types & ANY_TYPE or "string" in types for types in found)


class KeyWatch:
    """Follows text written under a grammar. First ``look`` at a token, then ``take`` or refuse it.

    Args:
        spec: the format.
        types: the types of the offered tools' parameters.
        whole: whether to follow the reply from its first token, with its reasoning; otherwise it is followed one call
            at a time, each from its beginning.
        may_call: whether a whole reply may be calls.
        may_answer: whether it may be an answer in JSON. Any other reply is free text, and ignored.
    """

    def __init__(
        self, spec: FormatSpec, types: ParameterTypes, *, whole: bool, may_call: bool = True, may_answer: bool = False
    ) -> None:
        # An answer may look like a call without a marker, and must not be taken for one.
        self._spec = spec if may_call else evolve(spec, calls=None)
        calls = self._spec.calls
        self._fresh: Brackets | Tags = Brackets()
        self._calls_too = calls is not None and calls.shape != "nested_tags"  # no grammar of these leaves a key open
        starts = () if calls is None else (calls.section_start, calls.start, *calls.more_starts)
        self._starts = tuple(start.removeprefix(spec.prompted) for start in starts if start != spec.prompted)
        if calls is not None and calls.parameters is not None:
            self._fresh = Tags(calls, calls.parameters, types)
        elif calls is not None and calls.shape in ("pythonic", "named_object"):
            self._fresh = Brackets(calls.quotes, escapes=calls.shape == "pythonic")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        parsed: ParserState | None = start(self._spec) if whole else None
        answers: bool | str = may_answer and ("" if may_call else True)
        self._taken = self._looked = (self._fresh, Brackets(), parsed, answers, self._decoder.getstate())

    def begin(self, text: str) -> None:
        """Begin with a call; ``text`` is its text so far."""
        call = copy(self._fresh)
        if self._calls_too:
            call.read(text)
        self._decoder.reset()
        self._taken = (call, *self._taken[1:4], self._decoder.getstate())

    def look(self, piece: bytes) -> bool:
        """Return whether this token causes no duplicate key."""
        call, answer, parsed, answers, decoded = self._taken
        if not self._calls_too and answers is False:
            return True
        self._decoder.setstate(decoded)
        text = self._decoder.decode(piece)
        before, after = parsed, None
        if before is not None:
            after, _ = advance(self._spec, before, text)
        if answers is not False and not (after is not None and isinstance(after.phase, InReasoning)):
            answers = self._answers(answers, text, in_call=after is not None and _in_call(after))
            answer = copy(answer)
            answer.read(text)
        called = before is None or after is None or _in_call(before) or _in_call(after)
        if self._calls_too and answers is not True and called:
            call = copy(call)
            call.read(text)
        self._looked = (call, answer, after, answers, self._decoder.getstate())
        return not (call.repeated or answer.repeated)

    def _answers(self, answers: bool | str, text: str, *, in_call: bool) -> bool | str:
        """Return whether the reply is an answer and not a call; while unknown, the text so far.

        If both are possible, each call has its marker. So an object without a marker is an answer, though it looks like
        a call.
        """
        if isinstance(answers, bool):
            return answers
        head, brace, _ = (answers + text).partition("{")
        if in_call and any(start in head for start in self._starts):
            return False
        return True if brace else head

    def take(self) -> None:
        """Take the token looked at last, even if it repeats a key."""
        for one in self._looked[:2]:
            one.repeated = False
        self._taken = self._looked

    def closer(self) -> bytes:
        """Return the text that no token may begin with, since it would end a duplicate key; empty if none."""
        for one in self._taken[:2]:
            closer, ended = one.closer, copy(one)
            if closer:
                ended.read(closer)
                if ended.repeated:
                    return closer.encode()
        return b""


def _in_call(state: ParserState) -> bool:
    return isinstance(state.phase, InSection | InCall)
