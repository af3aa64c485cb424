"""A call of a reply, read by the rules that local models' calls are read by."""

from __future__ import annotations

from cognition.messages import MalformedToolCall, ProposedCall
from cognition.parsing.literals import Unreadable
from cognition.parsing.making import call_of
from cognition.parsing.values import Value, json_values


def read_call(name: str, text: str, *, complete: bool) -> ProposedCall | MalformedToolCall:
    """The call, or what is wrong with it.

    Args:
        name: the tool's.
        text: its arguments, as they came; to the byte, where nothing in them has to be mended.
        complete: whether the reply is known to have gone on behind them. Otherwise they may not have begun.
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
