"""Candidates for a prompt, the sections they belong to, and the record of the choice."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.base.checking import checked
from cognition.base.errors import ConfigError

CONVERSATION = "history"
"""The section that is the conversation itself. Its share is reserved for messages; it accepts no candidates."""

SOURCE_TAG = "source"
"""The tag around a candidate that names its source. No section can have this name."""

SECTION_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")

Changes = Literal["seldom", "often"]
"""How often a section's text changes from message to message. This decides its place in the prompt."""

Fate = Literal["included", "trimmed", "left_out"]


def _check_name(_instance: Section, _attribute: Attribute[str], value: str) -> None:
    if not SECTION_NAME.fullmatch(value) or value == SOURCE_TAG:
        raise ConfigError(
            f"section name {value!r}: use 1 to 32 small letters, digits, '_' or '-', a letter first, and not "
            f"{SOURCE_TAG!r}"
        )


def _share(instance: object, attribute: Attribute[Any], value: float) -> None:
    if not 0 <= value <= 1:  # written so that NaN is refused too
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be from 0 to 1, not {value!r}")


def _time(_instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not isfinite(value):
        raise ConfigError(f"Candidate.{attribute.name} must be a number of seconds, or None, not {value!r}")


@checked
@frozen
class Section:
    """A part of the prompt with its own budget."""

    name: str = field(validator=_check_name)
    """Its tag in the prompt. ``history`` is the conversation itself."""
    share: float = field(validator=_share)
    """Its share of the room left by the system prompt and the tools, from 0 to 1. Other sections get the unused part.
    """
    floor: float = field(default=0.0, validator=_share)
    """Candidates less relevant to the user's message than this, from 0 to 1, are left out. Candidates of relevance 0
    are always left out. Ignored if ``changes`` is ``"seldom"``.
    """
    mandatory: bool = False
    """Whether all of its candidates must fit whole, regardless of its share; otherwise the turn fails."""
    changes: Changes = "often"
    """``"seldom"``: after the system prompt, with candidates in the given order. Nothing in it depends on the user's
    message, so a runtime can reuse its cache of the prompt's beginning. ``"often"``: before the newest user message,
    with the best candidates first.
    """
    recency: float = field(default=0.0, validator=_share)
    """How much of a candidate's relevance age can remove, from 0 to 1: half of it after 30 days, all of it if the
    candidate has no time. 0 ignores age.
    """


DEFAULT_SECTIONS: tuple[Section, ...] = (
    Section("identity", 0.15, mandatory=True, changes="seldom"),
    Section("instructions", 0.10, mandatory=True, changes="seldom"),
    Section("memory", 0.30, floor=0.25),
    Section("skills", 0.20),
    Section(CONVERSATION, 0.25),
)
"""The sections of a configuration that names no sections."""


def check_sections(sections: tuple[Section, ...]) -> None:
    """Check that these sections fit one prompt.

    Raises:
        ConfigError: two have the same name, the shares exceed 1, or no room is left for messages.
    """
    names = [section.name for section in sections]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two sections are named {twice!r}; give one of them another name")
    total = sum(section.share for section in sections)
    if total > 1 + 1e-9:
        raise ConfigError(f"the shares of the sections are {total:g} together, and can be 1 at most")
    shares = [section.share for section in sections if section.name != CONVERSATION]
    if sum(shares) > 1 - 1e-9:
        raise ConfigError(
            f"the shares of the sections leave no room for the conversation; give {CONVERSATION!r} a share"
        )


@checked
@frozen
class Candidate:
    """A text that may become part of the prompt."""

    section: str
    """The name of its section."""
    text: str
    source: str = ""
    """Its source, such as a file name, shown to the model; empty if unknown."""
    mandatory: bool = False
    """Whether it must fit whole; otherwise the turn fails."""
    at: float | None = field(default=None, validator=_time)
    """Its time of writing, in seconds since the epoch; None if unknown."""


@frozen
class Choice:
    """The decision on a candidate."""

    section: str
    source: str
    score: float
    """Its relevance to the user's message, from 0 to 1; 1 if its section changes seldom."""
    tokens: int
    """Estimated size in tokens."""
    shown: int
    """How many of them are in the prompt."""
    fate: Fate
    why: str


@frozen
class SectionUse:
    """The budget and the use of a section, in estimated tokens."""

    name: str
    budget: int
    """Its budget. For the conversation: the room left by the other sections."""
    tokens: int
    """The size of its text. For the conversation: the size of all messages."""


@frozen
class Briefing:
    """The sections of a turn's prompt as text; may be empty."""

    standing: str = ""
    """Sections that change seldom; they follow the system prompt."""
    passing: str = ""
    """Sections that change often; they precede the newest user message and leave the prompt with it."""
    tokens: int = 0
    """An upper bound of the tokens of both if tokens are counted; 0 if they are estimated."""
