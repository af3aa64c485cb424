"""Keeps a key from being given twice in one object: a grammar forgets which keys it has let through.

It matters only where a schema leaves keys open (``additionalProperties``, ``patternProperties``, any object). What is
written is followed from the call's beginning on, in the notation of the format; a token that would complete a key for
the second time is refused, and another one sampled in its place.
"""

from __future__ import annotations

import codecs
import contextlib
import json
from copy import copy

from attrs import define, evolve, field

from cognition.parsing import CallFormat, FormatSpec, ParameterMarkers, advance, start
from cognition.parsing.literals import CLOSERS
from cognition.parsing.making import name_in
from cognition.parsing.markers import Markers
from cognition.parsing.state import InCall, InReasoning, InSection, ParserState
from cognition.parsing.typed import ANY_TYPE, ParameterTypes

CLOSING = frozenset(CLOSERS.values())


@define
class Brackets:
    """Reads JSON, Python's values, and Gemma's objects: what brackets, commas and quotes tell of their keys."""

    quotes: tuple[str, ...] = ('"',)
    """The quotation marks around strings."""
    escapes: bool = True
    """Whether a backslash in a string changes what follows it."""
    repeated: bool = False
    """Whether a key was given twice."""
    _objects: tuple[frozenset[str] | None, ...] = ()
    """The keys of each object that is open; None for a list."""
    _key: str | None = None
    """The part of a key that has come; None where no key is expected."""
    _quote: str = ""
    """The quotation mark that ends the string being read; empty outside of strings."""
    _escaped: bool = False
    """Whether a backslash stands before what comes next."""
    _held: str = ""
    """The end of the text, which may be the beginning of a quotation mark of several signs."""
    _free: Markers = field(init=False)
    _quoted: dict[str, Markers] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._free = Markers((*CLOSERS, *CLOSING, ",", ":", "=", *self.quotes))
        self._quoted = {quote: Markers((quote, "\\") if self.escapes else (quote,)) for quote in self.quotes}

    @property
    def closer(self) -> str:
        """What would end the key at hand; empty where none is."""
        return "" if self._key is None or self._escaped else self._quote[len(self._held) :] or ":"

    def read(self, text: str) -> None:
        """Read on."""
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
    """Reads parameters between markers, whose values may be JSON with keys of its own."""

    calls: CallFormat
    markers: ParameterMarkers
    types: ParameterTypes
    """The types of the offered tools' parameters."""
    repeated: bool = False
    """Whether a key was given twice."""
    _keys: frozenset[str] = frozenset()
    _role: str = "outside"
    """What comes next: ``outside`` of parameters, a ``key``, the ``type`` of a value, or a ``value``."""
    _head: str = ""
    """The text before the parameters, which holds the name."""
    _held: str = ""
    """The part of a key or of a type that has come, or the end of the text, which may be the beginning of a marker."""
    _value: Brackets | None = None
    """A value in JSON; None for one that is text, or may be."""
    _outside: Markers = field(init=False)
    _inside: Markers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._outside = Markers((self.markers.key_start, self.calls.end))
        self._inside = Markers((self.markers.value_end,))

    @property
    def closer(self) -> str:
        """What would end the key at hand; empty where none is."""
        if self._role == "key":
            return self.markers.key_end
        return "" if self._value is None else self._value.closer

    def read(self, text: str) -> None:
        """Read on."""
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
        """Whether a parameter is JSON in the tool that is called; where that is not known, in all that have it.

        A start that came in many tokens may not be known whole here, so that its end stands before the name.
        """
        head = self._head.rpartition(self.calls.name_start or self.calls.start)[2]
        head = head.partition(self.calls.name_end)[0] if self.calls.name_end else head
        name = name_in(self.calls, head)
        called = max((tool for tool in self.types if name.endswith(tool)), key=len, default=None)
        known = self.types.values() if called is None else [self.types[called]]
        found = [types[key] for types in known if key in types]
        return bool(found) and not any(not types or types & ANY_TYPE or "string" in types for types in found)


class KeyWatch:
    """Follows what is written under a grammar. A token is looked at first and then taken, or refused.

    Args:
        spec: the format.
        types: the types of the offered tools' parameters.
        whole: whether the reply is followed from its first token on, with its reasoning; otherwise it is followed one
            call at a time, each from its beginning on.
        may_call: whether a whole reply may be calls.
        may_answer: whether it may be an answer in JSON. What is neither is free text, and left alone.
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
        """Begin with a call, of which this text has come."""
        call = copy(self._fresh)
        if self._calls_too:
            call.read(text)
        self._decoder.reset()
        self._taken = (call, *self._taken[1:4], self._decoder.getstate())

    def look(self, piece: bytes) -> bool:
        """Whether no key would be given twice with this token."""
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
        """Whether the reply is an answer and no call; as long as that is unknown, the text before either of them.

        Where both may come each call has its marker: an object without one is an answer, though it looks like a call.
        """
        if isinstance(answers, bool):
            return answers
        head, brace, _ = (answers + text).partition("{")
        if in_call and any(start in head for start in self._starts):
            return False
        return True if brace else head

    def take(self) -> None:
        """Take the token looked at last, even if it gives a key twice."""
        for one in self._looked[:2]:
            one.repeated = False
        self._taken = self._looked

    def closer(self) -> bytes:
        """The text that no token may begin with now, since it would end a key that was given before; empty if none."""
        for one in self._taken[:2]:
            closer, ended = one.closer, copy(one)
            if closer:
                ended.read(closer)
                if ended.repeated:
                    return closer.encode()
        return b""


def _in_call(state: ParserState) -> bool:
    return isinstance(state.phase, InSection | InCall)
