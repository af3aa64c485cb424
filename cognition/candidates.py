"""What may stand in a prompt beside the conversation: candidates, the sections they are for, and what was chosen."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.checking import checked
from cognition.errors import ConfigError

CONVERSATION = "history"
"""The section that is the conversation itself. Its share is kept for messages, and no candidate can be put there."""

SOURCE_TAG = "source"
"""Around a candidate that says where it comes from, so that no section can have this name."""

SECTION_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")

Changes = Literal["seldom", "often"]
"""How often a section's text changes from message to message: where it stands in the prompt follows from that."""

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
    """A part of the prompt with a budget of its own."""

    name: str = field(validator=_check_name)
    """Its tag in the prompt. ``history`` is the conversation itself."""
    share: float = field(validator=_share)
    """Of the room that the system prompt and the tools leave in the prompt, from 0 to 1. What a section doesn't need
    goes to the others."""
    floor: float = field(default=0.0, validator=_share)
    """The relevance to the user's message, from 0 to 1, below which a candidate is left out; one of 0 is left out in
    any case. Not looked at where ``changes`` is ``"seldom"``."""
    mandatory: bool = False
    """Whether all of its candidates have to be in, whole, whatever its share: else the turn fails."""
    changes: Changes = "often"
    """``"seldom"``: it stands behind the system prompt, its candidates in the order in which they were given, and
    nothing in it depends on the user's message, so that what a runtime holds of the prompt's beginning stays of use.
    ``"often"``: it stands in front of the newest message of the user, its best candidates first."""
    recency: float = field(default=0.0, validator=_share)
    """The part of a candidate's relevance that its age can take away, from 0 to 1: half of it after 30 days, all of it
    where it has no time. 0: age says nothing."""


DEFAULT_SECTIONS: tuple[Section, ...] = (
    Section("identity", 0.15, mandatory=True, changes="seldom"),
    Section("instructions", 0.10, mandatory=True, changes="seldom"),
    Section("memory", 0.30, floor=0.25),
    Section("skills", 0.20),
    Section(CONVERSATION, 0.25),
)
"""The sections of an agent that names none."""


def check_sections(sections: tuple[Section, ...]) -> None:
    """See that sections can stand in one prompt.

    Raises:
        ConfigError: two have one name, their shares are more than all there is, or nothing is left for messages.
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
    """A text that may stand in the prompt."""

    section: str
    """The name of the section that it is for."""
    text: str
    source: str = ""
    """Where it comes from, such as the name of a file, which the model is told; empty for nothing."""
    mandatory: bool = False
    """Whether it has to be in, whole: else the turn fails."""
    at: float | None = field(default=None, validator=_time)
    """When it was written, in seconds since the epoch; None where that is not known."""


@frozen
class Choice:
    """What became of a candidate."""

    section: str
    source: str
    score: float
    """Its relevance to the user's message, from 0 to 1; 1 where nothing was asked of it."""
    tokens: int
    """Estimated size in tokens."""
    shown: int
    """How many of them are in the prompt."""
    fate: Fate
    why: str


@frozen
class SectionUse:
    """What a section had and used, in estimated tokens."""

    name: str
    budget: int
    """What it was dealt. Of the conversation: what the others leave it."""
    tokens: int
    """What its text has. Of the conversation: what all messages would take."""


@frozen
class Briefing:
    """The sections of a turn's prompt as text; each empty for none."""

    standing: str = ""
    """What changes seldom: it stands behind the system prompt."""
    passing: str = ""
    """What changes often: it stands in front of the newest message of the user, and goes with it."""
    tokens: int = 0
    """The most tokens that both have, where tokens are counted; 0 where they are estimated."""
