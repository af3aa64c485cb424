"""Collects a reply as it arrives, for every wire format: joins texts, calls and counts, and outputs them.

A call is announced as soon as its name is certain. It is closed when the reply has ended as the format requires, so a
truncated call is never finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import define, field, fields_dict, frozen

from cognition.base.strict_json import DECODER, DuplicateKeyError
from cognition.parsing.call_builder import call_of
from cognition.parsing.literals import UnreadableCallError
from cognition.parsing.outputs import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.rope import EMPTY, Rope, append_text, join_pieces
from cognition.parsing.values import Value, json_values
from cognition.values.messages import MalformedToolCall, ProposedCall, Usage
from cognition.values.outcomes import Failure, FinishReason
from cognition.wire._fields import HALF, SURROGATE, BadOutputError, without_halves
from cognition.wire._names import Names

LARGEST_REPLY = 1 << 26
"""Characters of a whole reply: 64 Mi. A larger reply is a server error."""
MOST_CALLS = 1000
LONGEST_NAME = 4096
MOST_KEPT = 1000
"""Parts of a reply to send back to the server."""

BROKE_OFF = "the reply broke off"


@frozen
class WireReply:
    """A reply that has ended or failed."""

    text: str = ""
    """All ``TextDelta`` joined; for a failed reply, the text so far."""
    reasoning: str = ""
    calls: tuple[ProposedCall, ...] = ()
    """Empty if the reply failed."""
    malformed: tuple[MalformedToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    """Zero if the server reported none."""
    failure: Failure | None = None
    """Set exactly if ``finish_reason`` is ``"error"``."""
    warnings: tuple[str, ...] = ()
    model: str = ""
    """The model that the server reports, which may differ from the requested model."""
    response_id: str = ""
    continuation: str = ""
    """Further parts that the server wants back in the next request, as JSON text, such as signed thinking blocks;
    empty if there are none.
    """
    outputs: tuple[Output, ...] = ()
    """The outputs that only the end produced. Show them after those of ``feed``."""


class PartialCall(NamedTuple):
    """A call being written. A tuple for speed, as each piece creates one."""

    name: str = ""
    """The wire name, as far as it has arrived."""
    arguments: Rope = EMPTY
    place: int = 0
    """Its index among the calls of the reply."""
    announced: bool = False
    half: str = ""
    """An unpaired surrogate at the end of the received text."""


class StoredPart(NamedTuple):
    """A part of a reply that the server wants back."""

    at: int
    """Its place: 0 before all text and calls, 1 after the text, 2 after the first call, and so on."""
    value: Mapping[str, Any]
    needs: str = ""
    grown: tuple[tuple[str, Rope], ...] = ()
    """Its fields that arrive in pieces."""

    @property
    def whole(self) -> dict[str, Any]:
        texts = {name: whole_characters("", join_pieces(text)) for name, text in self.grown}
        return {**self.value, **{name: ready + HALF * len(half) for name, (ready, half) in texts.items()}}


@define
class Collected:
    """The parts of a reply so far that are the same in ``ReplyState`` and ``ReplyBuilder``."""

    text: Rope = EMPTY
    reasoning: Rope = EMPTY
    half_text: str = ""
    half_reasoning: str = ""
    size: int = 0
    reason: str = ""
    """The server's finish reason; empty until reported."""
    ended: bool = False
    usage: Usage | None = None
    counts: Mapping[str, int] = field(factory=dict)
    """The parts of ``usage``, for formats that report it in parts."""
    failure: Failure | None = None
    model: str = ""
    response_id: str = ""
    warnings: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()
    """Parts of the reply already read, for formats that send them twice."""


@frozen
class ReplyState(Collected):
    """The state between two events."""

    calls: tuple[tuple[str, PartialCall], ...] = ()
    """Calls by the server's key for them: an index, an id or the like."""
    kept: tuple[tuple[str, StoredPart], ...] = ()
    """The parts to send back to the server, by the server's key for them."""


@define(kw_only=True)
class ReplyBuilder(Collected):
    """A reply being collected: ``ReplyState``, mutable for speed, and its outputs."""

    names: Names
    blank_behind_thoughts: bool
    """See ``Quirks``."""
    calls: dict[str, PartialCall]
    kept: dict[str, StoredPart]
    outputs: list[Output] = field(factory=list)
    source: str = ""
    """The text of the event at hand."""

    @classmethod
    def of(cls, names: Names, state: ReplyState, blank_behind_thoughts: bool = False) -> ReplyBuilder:
        """Continue from a state."""
        same: dict[str, Any] = {name: getattr(state, name) for name in _FIELDS}
        calls, kept = dict(state.calls), dict(state.kept)
        return cls(names=names, blank_behind_thoughts=blank_behind_thoughts, calls=calls, kept=kept, **same)

    @property
    def state(self) -> ReplyState:
        same: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        return ReplyState(**same, calls=tuple(self.calls.items()), kept=tuple(self.kept.items()))

    # ------------------------------------------------------------------------------------------- what a reader says

    def add_text(self, text: str) -> None:
        text, self.half_text = whole_characters(self.half_text, text)
        if self.blank_behind_thoughts and self.reasoning and not self.text:
            text = text.lstrip()
        if text:
            self._grow(text)
            self.text = append_text(self.text, text)
            self.outputs.append(TextDelta(text))

    def add_reasoning(self, text: str) -> None:
        text, self.half_reasoning = whole_characters(self.half_reasoning, text)
        if text:
            self._grow(text)
            self.reasoning = append_text(self.reasoning, text)
            self.outputs.append(ReasoningDelta(text))

    def call(self, key: str, name: str = "", arguments: str = "") -> None:
        """Add to the call that the server calls ``key``."""
        if (call := self.calls.get(key)) is None:
            if len(self.calls) >= MOST_CALLS:
                raise BadOutputError(f"the reply has more than {MOST_CALLS} calls")
            for other, before in self.calls.items():  # nothing more of its name comes
                if not before.announced and before.name.strip():
                    self.calls[other] = self._announce(before)
            call = PartialCall(place=len(self.calls))
        if name or arguments:
            self._grow(name + arguments)
        if name:
            call = call._replace(name=self._longer_name(call, without_halves(name)))
        if arguments:
            call = self._more_arguments(call, arguments)
        elif not call.announced and self._certain(call.name):
            call = self._announce(call)
        self.calls[key] = call

    def call_with_object(self, key: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Add a call whose arguments came as an object, in the event ``source``.

        Raises:
            BadOutputError: the event has a duplicate key, so the arguments may differ from the intended ones.
        """
        try:
            DECODER.decode(self.source)
        except DuplicateKeyError as error:
            raise BadOutputError(f"the server sent an object in which {error}") from None
        except (ValueError, RecursionError):
            pass  # what is no number is found where the call is read
        self.call(key, name, json.dumps(arguments, ensure_ascii=False))

    def whole_arguments(self, key: str, arguments: str) -> None:
        """Add the missing rest of a call's arguments, which the server repeats as a whole at the end.

        Raises:
            BadOutputError: they differ from the arguments received.
        """
        call = self.calls.get(key, PartialCall())
        so_far = join_pieces(call.arguments) + call.half
        if not arguments.startswith(so_far):
            raise BadOutputError("the server told two different texts as the arguments of one call")
        self.call(key, "", arguments[len(so_far) :])

    def fail(self, failure: Failure) -> None:
        """End the reply with a failure. The first failure counts."""
        if self.failure is None:
            self.failure = failure

    def warn(self, warning: str) -> None:
        self.warnings = (*dict.fromkeys((*self.warnings, warning)),)

    def keep(self, key: str, value: Mapping[str, Any], needs: str = "", **pieces: str) -> None:
        """Store a part of the reply to send back with the next request.

        Args:
            key: the server's key for it within the reply.
            value: its fields that arrive complete.
            needs: a field without which the server refuses it, if any.
            pieces: more text for the fields that arrive in pieces.
        """
        if (known := self.kept.get(key)) is None:
            if len(self.kept) >= MOST_KEPT:
                raise BadOutputError(f"the reply has more than {MOST_KEPT} parts that are to be sent back")
            known = StoredPart(1 + len(self.calls) if self.text or self.calls else 0, value, needs)
        grown = dict(known.grown)
        for name, piece in pieces.items():
            self._grow(piece)
            grown[name] = append_text(grown.get(name, EMPTY), piece)
        merged = {**known.value, **value}
        if merged != known.value or key not in self.kept:
            self._grow(repr(value))
        self.kept[key] = known._replace(value=merged, grown=tuple(grown.items()))

    def first(self, key: str) -> bool:
        """Return whether a part of the reply is read for the first time."""
        if key in self.seen:
            return False
        self.seen |= {key}
        return True

    @property
    def parts_to_send(self) -> list[tuple[int, dict[str, Any]]]:
        """All stored parts that can be sent back, each with its place."""
        found = [(kept.at, kept.whole, kept.needs) for kept in self.kept.values()]
        return [(at, value) for at, value, needs in found if not needs or value.get(needs)]

    # ------------------------------------------------------------------------------------------------------- the end

    def close(self, *, cut: bool) -> tuple[tuple[ProposedCall, ...], tuple[MalformedToolCall, ...]]:
        """Close every call. ``cut``: the reply was truncated, so its last call may be too."""
        calls: list[ProposedCall] = []
        malformed: list[MalformedToolCall] = []
        if self.half_text:
            self.half_text = ""
            self.add_text(HALF)
        if self.half_reasoning:
            self.half_reasoning = ""
            self.add_reasoning(HALF)
        for call in self.calls.values():
            if call.half:
                call = self._more_arguments(call._replace(half=""), HALF)
            open_end = cut and call.place == len(self.calls) - 1
            name, text = self.names.of_wire(call.name.strip()), join_pieces(call.arguments)
            read = read_call(name, text, complete=not open_end)
            if self.failure is not None:
                read = MalformedToolCall(f"{name} {text}".strip(), BROKE_OFF)
            if not call.announced and call.name.strip():
                self._announce(call)
            if isinstance(read, ProposedCall):
                calls.append(read)
                self.outputs.append(CallFinished(call.place, read, terminated=not open_end))
            else:
                malformed.append(read)
                self.outputs.append(CallMalformed(call.place, read))
        return tuple(calls), tuple(malformed)

    # --------------------------------------------------------------------------------------------------------- calls

    def _longer_name(self, call: PartialCall, piece: str) -> str:
        """Return the name with this piece added. Some servers repeat the whole name with each piece of arguments."""
        if call.announced or (piece == call.name and call.name in self.names.on_wire):
            return call.name
        if len(call.name) + len(piece) > LONGEST_NAME:
            raise BadOutputError(f"the reply has a call whose name has more than {LONGEST_NAME} characters")
        return call.name + piece

    def _certain(self, name: str) -> bool:
        """Return whether a name is complete: it is a tool's name, and not the beginning of another's."""
        known = self.names.on_wire
        return name in known and not any(other != name and other.startswith(name) for other in known)

    def _more_arguments(self, call: PartialCall, arguments: str) -> PartialCall:
        ready, half = whole_characters(call.half, arguments)
        if not call.announced and call.name.strip():
            call = self._announce(call)
        if ready and call.announced:
            self.outputs.append(ArgumentsDelta(call.place, ready))
        return call._replace(arguments=append_text(call.arguments, ready), half=half)

    def _announce(self, call: PartialCall) -> PartialCall:
        """Output the call's name and the arguments that waited for it."""
        self.outputs.append(CallStarted(call.place, self.names.of_wire(call.name.strip())))
        if call.arguments:
            self.outputs.append(ArgumentsDelta(call.place, join_pieces(call.arguments)))
        return call._replace(announced=True)

    def _grow(self, text: str) -> None:
        self.size += len(text)
        if self.size > LARGEST_REPLY:
            raise BadOutputError(f"the reply has more than {LARGEST_REPLY} characters")


_FIELDS = tuple(fields_dict(Collected))


def whole_characters(half: str, text: str) -> tuple[str, str]:
    """Return ``half`` and ``text`` joined into whole characters, and the unpaired surrogate at the end, if any.

    JSON may write one character as two escapes, and a server may cut between them. A surrogate without its partner
    becomes the replacement character.
    """
    if not half and (text.isascii() or not SURROGATE.search(text)):
        return text, ""
    if not text:
        return "", half
    text = (half + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    return SURROGATE.sub(HALF, text[: len(text) - len(half)]), half


def read_call(name: str, text: str, *, complete: bool) -> ProposedCall | MalformedToolCall:
    """Return the call, or a malformed call with the reason.

    Args:
        name: the tool's name.
        text: the arguments; they stay unchanged to the byte unless they need repair.
        complete: whether the reply is known to have continued after them. Otherwise they may not have begun.
    """
    raw = f"{name} {text}".strip()
    try:
        stripped = text.strip()
        if not stripped:
            if not complete:
                raise UnreadableCallError("its arguments are missing")
            return call_of(name, Value({}, "{}"), ())  # servers write a call without arguments so
        if stripped.startswith("["):
            raise UnreadableCallError("the arguments have to be a JSON object, not a list")
        # A brace that is missing is never made up: it may have been lost on the way, and more with it.
        values, repairs, _ = json_values(stripped, complete=False)
        if len(values) != 1:
            raise UnreadableCallError("the arguments have to be one JSON object")
        return call_of(name, values[0], repairs)
    except UnreadableCallError as error:
        return MalformedToolCall(raw, str(error))
