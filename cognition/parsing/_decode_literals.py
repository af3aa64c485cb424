"""Decode calls whose values are not JSON: Python literals, and objects with strings between tokens."""

from __future__ import annotations

import re

from cognition.parsing._repair import EXTRA_BRACE
from cognition.parsing.call_builder import Decoded, Decoding, call_of, check_name
from cognition.parsing.literals import CLOSERS, Doubt, LiteralReader, UnreadableCallError
from cognition.parsing.spec import CallFormat
from cognition.parsing.values import Value
from cognition.values.messages import MalformedToolCall

CALL_SIGNS = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|['"()\[\]{}]""", re.DOTALL)
"""The significant parts of a pythonic call that can't be read: strings, brackets, and an unclosed quotation mark."""
BRACES = re.compile("[} ]++")


def decode_pythonic(calls: CallFormat, text: str, *, terminated: bool, cut: bool) -> Decoding:
    """Decode ``[f(x=1), g()]``, or one call without the brackets. Calls around a broken one count.

    If a format separates calls by a line break, several calls may come without the brackets. ``cut``: the reply may
    have ended within this text, so an unclosed quotation mark yields no call.
    """
    reader = LiteralReader(text, calls.quotes, escapes=True)
    decoded: list[Decoded] = []
    doubt: Doubt | None = None
    sure = 0  # calls before the doubt
    listed, closed = reader.take("["), False
    start = reader.at
    try:
        while True:
            reader.skip()
            start = reader.at
            if start == len(text) and decoded and (not terminated or not listed):
                break
            if listed and reader.take("]"):
                closed = True
                break
            try:
                name = reader.word()
                reader.expect("(")
                arguments = reader.members(")", "=")
                if reader.repairs:
                    doubt, sure = (doubt, sure) if doubt else (Doubt(start), len(decoded))
                decoded.append(call_of(name, Value(arguments, None), reader.repairs))
            except UnreadableCallError as error:
                # A quote too many leaves its end open.
                end = -1 if reader.repairs or error.doubt else _behind_call(text, start)
                if end < 0:
                    raise
                decoded.append(MalformedToolCall(text[start:end], str(error)))
                reader.at = end
            reader.begin_call()
            began, behind = start, reader.at
            reader.skip()
            start = reader.at
            if not listed and calls.separator == "\n" and "\n" in text[behind:start]:
                continue
            if not reader.take(",") and not text.startswith("]", reader.at) and reader.at < len(text):
                here = text[reader.at : reader.at + 20]
                if any(quote in text[start:] for quote in calls.quotes):  # maybe the last call's text goes on here
                    start = began
                    decoded.pop()
                raise UnreadableCallError(f"',' or ']' was expected after a call, not {here!r}")
            if not listed and start == len(text):
                break
        reader.skip()
        if reader.at < len(text):
            start = reader.at
            raise UnreadableCallError("text stands behind the calls")
        if not decoded:
            raise UnreadableCallError("the list of calls is empty")
        if cut and doubt is not None and not closed:
            raise UnreadableCallError("a quotation mark stands in a text, and the end of the call is missing")
    except UnreadableCallError as error:
        if cut and doubt is not None:
            start, decoded = doubt.place, decoded[:sure]
        malformed = MalformedToolCall(text[start:] if decoded else text, str(error))
        place = doubt.place if doubt else start
        return Decoding([*decoded, malformed], Doubt(place, open=error.doubt is not None))
    return Decoding(decoded, doubt)


def _behind_call(text: str, start: int) -> int:
    """Return the position after a pythonic call that can't be read, or -1 if its brackets or quotes stay open."""
    awaited: list[str] = []
    for found in CALL_SIGNS.finditer(text, start):
        sign = found.group()
        if sign in CLOSERS:
            awaited.append(CLOSERS[sign])
        elif len(sign) == 1:  # no text, so one of these brackets, or a quotation mark that none closes
            if not awaited or awaited.pop() != sign:
                break
            if not awaited:
                return found.end()
    return -1


def decode_named_objects(calls: CallFormat, text: str) -> Decoding:
    """Decode ``call:f{x:1}``. Some models write several calls between one pair of markers; those before a broken one
    count.
    """
    decoded: list[Decoded] = []
    start = 0
    while start < len(text):
        try:
            brace = text.find("{", start)
            if brace < 0:
                raise UnreadableCallError("'{' is missing after the name")
            reader = LiteralReader(text, calls.quotes, escapes=False, at=brace + 1)
            arguments = reader.members("}", ":")
            reader.skip()
            extra = BRACES.fullmatch(text, reader.at) is not None  # a brace too many leaves no doubt
            if reader.at < len(text) and not extra and not (calls.name_start and reader.take(calls.name_start)):
                raise UnreadableCallError(f"text stands behind the arguments: {text[reader.at : reader.at + 40]!r}")
            name, repairs = check_name(calls, text[start:brace]), (EXTRA_BRACE,) if extra else ()
            decoded.append(call_of(name, Value(arguments, None), repairs))
        except UnreadableCallError as error:
            return Decoding([*decoded, MalformedToolCall(text[start:].strip(), str(error))], error.doubt)
        start = len(text) if extra else reader.at
    return Decoding(decoded)
