"""Detects the start of a call in freely sampled text. It uses the parser itself, so that both agree."""

from __future__ import annotations

import codecs
import re

from attrs import frozen

from cognition.parsing import FormatSpec, advance, start
from cognition.parsing.rope import joined
from cognition.parsing.state import InCall, InSection
from runtime.constrained.replies import Entry


@frozen
class Begun:
    """A call or a section of calls has begun."""

    entry: Entry
    text: str
    """The text of the call or section so far, from the token that began it."""


class CallWatch:
    """Reads a reply token by token. First ``look`` at a token, then ``take`` it, or look at another instead."""

    def __init__(self, spec: FormatSpec) -> None:
        assert spec.calls is not None  # else there is nothing to watch for
        self._spec = spec
        self._calls = spec.calls
        self._state = start(spec)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = False
        """Whether the current call was reported."""
        self._taken = self._looked = (self._state, self._decoder.getstate())
        """The states of parser and decoder: ``_taken`` after the last token taken, ``_looked`` after the last token
        looked at.
        """
        name = re.escape(self._calls.fields.name)
        bare_object = rf'\{{\s*(?:"(?:type|id)"\s*:\s*"[^"]*"\s*,\s*)?"{name}"\s*:'
        bare_list = r"\[\s*[^\s\[\](){},:=]+\s*\("
        self._head = re.compile(bare_list if self._calls.shape == "pythonic" else bare_object)
        """Matches the beginning of a call without a start marker."""

    def look(self, piece: bytes) -> Begun | None:
        """Return the call or section that this token would begin, if any."""
        self._decoder.setstate(self._taken[1])
        text = self._decoder.decode(piece)
        before = self._state
        after, _ = advance(self._spec, before, text)
        self._looked = (after, self._decoder.getstate())
        phase = after.phase
        fresh = not self._inside or after.calls > before.calls
        if not isinstance(phase, InSection | InCall) or not fresh:
            return None
        section = self._calls.section_start
        came = before.phase.held + text
        if section and section in came:
            return Begun("section", came.rpartition(section)[2])
        if isinstance(phase, InSection):
            return None
        written = joined(phase.raw) + phase.held
        if phase.tentative and not self._head.match(written):
            return None  # a brace, and nothing that tells a call from any other JSON
        marker = came[: len(came) - len(written)]
        named = self._calls.name_start in self._calls.more_starts and marker.endswith(self._calls.name_start)
        return Begun("named" if named else "call", written)

    def take(self, *, known: bool) -> None:
        """Take the token looked at last. ``known``: a grammar constrains the call that the token began or is in."""
        self._taken = self._looked
        self._state = self._looked[0]
        inside = isinstance(self._state.phase, InSection | InCall)
        self._inside = inside and (known or self._inside)
