"""Reads a call of a server's reply by the same rules as a local model's call."""

from __future__ import annotations

from cognition.parsing.call_builder import call_of
from cognition.parsing.literals import Unreadable
from cognition.parsing.values import Value, json_values
from cognition.values.messages import MalformedToolCall, ProposedCall


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
                raise Unreadable("its arguments are missing")
            return call_of(name, Value({}, "{}"), ())  # servers write a call without arguments so
        if stripped.startswith("["):
            raise Unreadable("the arguments have to be a JSON object, not a list")
        # A brace that is missing is never made up: it may have been lost on the way, and more with it.
        values, repairs, _ = json_values(stripped, complete=False)
        if len(values) != 1:
            raise Unreadable("the arguments have to be one JSON object")
        return call_of(name, values[0], repairs)
    except Unreadable as error:
        return MalformedToolCall(raw, str(error))
