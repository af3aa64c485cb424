"""Find the end of a tagged parameter whose end marker is missing or wrong.

Models close a parameter by ``</parameter``, by ``</parameter/>`` or by its own name. Its text then seems to continue up
to the end of the next parameter. Such a text is read as meant if no doubt is left. Otherwise the call can't be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from cognition.parsing.literals import Doubt, UnreadableCallError
from cognition.parsing.spec import CallFormat, ParameterMarkers

MISSING_PARAMETER_END = "missing end of a parameter"
WRONG_PARAMETER_END = "wrong end of a parameter"
LONGEST_TAG = 120
"""Characters of a tag with the white space behind it."""
TAG = re.compile(r"(?:</[^<>\n]*+>?|<[^\s<>/][^<>\n]*+>)\Z")
"""A tag at the end of a text. A closing one may lack its last character."""
PLAIN = re.compile(r"[\w.:-]+")
"""A name of a parameter or a call, without markup."""
WORDS = re.compile(r"\w+")


class ParameterEnd(NamedTuple):
    """The end of a parameter's text, and the position where the next parameter begins."""

    stop: int
    following: int
    repair: str


def find_missing_end(
    raw: str, span: tuple[int, int, int], calls: CallFormat, key: str, others: Collection[str]
) -> ParameterEnd | None:
    """Return the end of the value of ``key`` if it is before its end marker; None if that marker ends it.

    A value may contain markers of parameters, as a text about this format does. It ends before such a marker only if
    a tag is in front of it, or if the marker begins a line. The marker has to name one of ``others``, which are the
    tool's parameters without a value so far, and that one may have no value later either.

    Args:
        span: where the value begins, where its marked texts end, and where its end marker is.

    Raises:
        UnreadableCallError: a tag seems to close the value, and may be a part of it.
    """
    markers = calls.parameters
    assert markers is not None  # CallFormat's own check
    begin, behind, stop = span
    first = True  # only one at the beginning of a line is looked for elsewhere: each look may pass the whole text
    while (place := raw.find(markers.key_start, behind, stop)) >= 0:
        behind = place + len(markers.key_start)
        name, found, _ = raw[behind : min(behind + LONGEST_TAG, stop)].partition(markers.key_end)
        name = name.strip() if found else ""
        before = raw[max(begin, place - LONGEST_TAG) : place]
        tag = _tag_at_end(before, markers)
        if PLAIN.fullmatch(name) and (tag or _begins_call(before, calls)):
            at = place - len(before) + before.rindex(tag) if tag else place
            own = tag and _closes(tag, key, markers) and f"<{key}" not in raw[begin:at]
            if own and _is_next(raw, name, stop, markers, others):
                return ParameterEnd(at, place, WRONG_PARAMETER_END)
            raise _wrong_end(key, tag or calls.start, begin)
        if first and before.endswith("\n"):
            first = False
            if _is_next(raw, name, stop, markers, others):
                return ParameterEnd(place - 1, place - 1, MISSING_PARAMETER_END)
    closing = f"</{key}>"
    if (
        raw[max(begin, stop - len(closing) - 1) : stop].rstrip("\n").endswith(closing)
        and f"<{key}" not in raw[begin:stop]
    ):
        raise _wrong_end(key, closing, begin)
    return None


def _tag_at_end(text: str, markers: ParameterMarkers) -> str:
    """Return the tag at the end of a text, or the first half or more of the end marker; empty if there is neither."""
    text = text.rstrip()
    half = text.rfind(markers.value_end[: (len(markers.value_end) + 1) // 2])
    if half >= 0 and markers.value_end.startswith(text[half:]):
        return text[half:]
    tag = TAG.search(text)
    return tag[0] if tag else ""


def _begins_call(before: str, calls: CallFormat) -> bool:
    """Return whether this text ends with the beginning of a call whose name has no end marker."""
    _, found, name = before.rpartition(calls.start)
    return bool(found) and not calls.name_end and PLAIN.fullmatch(name.strip()) is not None


def _closes(tag: str, key: str, markers: ParameterMarkers) -> bool:
    """Return whether a tag is the end marker with a slip in it, or has the parameter's name."""
    if markers.value_end.startswith(tag):
        return True
    words = WORDS.findall(tag)
    if not markers.value_end.startswith("</") or words[:1] == [key]:
        return words == [key] and tag.startswith("</")
    return set(words) <= set(WORDS.findall(markers.value_end))


def _is_next(raw: str, name: str, stop: int, markers: ParameterMarkers, others: Collection[str]) -> bool:
    return name in others and raw.find(f"{markers.key_start}{name}{markers.key_end}", stop) < 0


def _wrong_end(key: str, written: str, begin: int) -> UnreadableCallError:
    reason = f"{written!r} does not close the parameter {key!r}"
    return UnreadableCallError(reason, Doubt(begin, open=True))
