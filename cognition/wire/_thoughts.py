"""Reads thoughts that a server has left at the beginning of a reply's text: ``<think>Hm.</think>Hello.``

LM Studio, vLLM without a reasoning parser, Groq and others do. Only the beginning counts: a text may be about the tags.
"""

from __future__ import annotations

from typing import Literal

from attrs import evolve, frozen

from cognition.parsing.outputs import Output, ReasoningDelta, TextDelta

START, END = "<think>", "</think>"


@frozen
class ThoughtState:
    """A reply's text between two of its pieces."""

    place: Literal["before", "within", "behind", "text"] = "before"
    """Whether the text has begun, with thoughts or without: ``behind`` is the blank between the thoughts and the text.
    """
    held: str = ""
    """Text whose continuation decides what it is."""


def advance(state: ThoughtState, piece: str) -> tuple[ThoughtState, tuple[Output, ...]]:
    """Read the next piece of a text. Joined, the outputs are the same for any cut."""
    told: list[Output] = []
    text = state.held + piece
    place = state.place
    if place == "before":
        begun = text.lstrip()
        if begun.startswith(START):
            place, text = "within", begun[len(START) :]
        elif START.startswith(begun):
            return ThoughtState("before", text), ()
        else:
            place = "text"
    if place == "within":
        thought, end, rest = text.partition(END)
        if not end:
            kept = _kept(text)
            _add(told, ReasoningDelta, text[: len(text) - kept])
            return ThoughtState("within", text[len(text) - kept :]), tuple(told)
        _add(told, ReasoningDelta, thought)
        place, text = "behind", rest
    if place == "behind":
        text = text.lstrip()
        place = "text" if text else "behind"
    _add(told, TextDelta, text)
    return ThoughtState(place), tuple(told)


def finish(state: ThoughtState) -> tuple[ThoughtState, tuple[Output, ...]]:
    """Return the outputs of the text that was held back: the reply has ended."""
    told: list[Output] = []
    _add(told, ReasoningDelta if state.place == "within" else TextDelta, state.held)
    return evolve(state, held=""), tuple(told)


def _kept(text: str) -> int:
    """Return the length of the longest end of a text that may be the beginning of ``END``."""
    return next((size for size in range(min(len(END) - 1, len(text)), 0, -1) if END.startswith(text[-size:])), 0)


def _add(told: list[Output], kind: type[ReasoningDelta] | type[TextDelta], text: str) -> None:
    if text:
        told.append(kind(text))
