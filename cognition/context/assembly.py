"""Choose among candidates, write them as sections of a prompt, and report the decision on each.

    <identity>
    <source path="BOOTSTRAP.md">
    You are the assistant of a bakery.
    </source>
    </identity>

Sizes are in characters of the prompt, tags included, so that no section exceeds its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from attrs import define, frozen

from cognition.base.elision import elide
from cognition.context._budget_split import WHOLE, Claim, split_budget, thousandths
from cognition.context._escaping import attribute, element, escape_tags, frame
from cognition.context.relevance import apply_recency, scores_of
from cognition.values.candidates import CONVERSATION, SOURCE_TAG, Briefing, Candidate, Choice, Fate, Section, SectionUse

TRIM_STEP = 300
"""Texts are trimmed to a multiple of this many characters, or left out. The room changes a little with each message; a
text that changed with it would lose its cached tokens each time.
"""

TRIMMED = "\n[... {} characters of this text are left out here for want of room ...]\n"

MANDATORY, FITS = "it has to be in", "it fits"
EMPTY, TWICE = "it is empty", "the same text is there already"
NOTHING_OF_IT = "it has no word of the message"
NO_ROOM, NOT_ALL = "its section has no room left for it", "its section has no room for all of it"
IS_CONVERSATION = f"the section {CONVERSATION!r} is the conversation itself"


@frozen
class Assembly:
    """The sections of a turn's prompt, and the decisions behind them."""

    briefing: Briefing
    choices: tuple[Choice, ...]
    """A choice for each candidate, in the candidates' order."""
    uses: tuple[SectionUse, ...]
    problem: str = ""
    """Why the turn can't continue: a mandatory text does not fit. The briefing is then empty."""


@define(eq=False)
class _Item:
    """A candidate and the findings about it."""

    candidate: Candidate
    score: float
    mandatory: bool
    head: str = ""
    text: str = ""
    foot: str = ""
    shown: str = ""
    """The part of the text in the prompt."""
    fate: Fate = "left_out"
    why: str = ""

    @property
    def cost(self) -> int:
        """Characters of the whole item, including the line break before it."""
        return len(self.head) + len(self.text) + len(self.foot) + 1

    def show(self, text: str, fate: Fate, why: str) -> None:
        self.shown, self.fate, self.why = text, fate, why


def assemble(
    candidates: Sequence[Candidate],
    sections: Sequence[Section],
    message: str,
    room: int,
    newest: int,
    held: int,
    *,
    now: float = 0.0,
    tokens: Callable[[int], int] = lambda characters: characters,
    anyway: bool = False,
    first_words: bool = False,
) -> Assembly:
    """Choose among candidates.

    Args:
        candidates: in any order, which decides between equally good candidates of a section.
        sections: in prompt order; they must pass ``check_sections``.
        message: the user's message, for relevance.
        room: characters for sections and conversation together.
        newest: characters of the room that the newest message always takes.
        held: characters of all messages, including the newest.
        now: the present time for ages, in seconds since the epoch.
        tokens: converts characters to tokens, for the report.
        anyway: whether mandatory texts are included even if they exceed the room, because the room is an estimate.
        first_words: as in ``scores_of``.
    """
    room = max(room, 0)
    known = {section.name: section for section in sections if section.name != CONVERSATION}
    items = _score_candidates(candidates, known, message, now, first_words)
    groups = _group_by_section(items, known)
    problem = _unknown_section_error(items, known)
    own = next((section.share for section in sections if section.name == CONVERSATION), 0.0)
    claims = [_conversation(own, room, newest, held), *[_claim(known[name], some) for name, some in groups.items()]]
    grants = split_budget(max(room, sum([claim.needed for claim in claims])) if anyway else room, claims)
    if grants is None and not problem:
        needed = sum([claim.needed for claim in claims]) - newest
        problem = _overflow_error(items, needed, room - newest, tokens)
    if grants is None or problem:
        grants = (0,) * len(claims)
    dealt_to = dict(zip(groups, grants[1:], strict=True))
    blocks = {name: _fill_section(known[name], some, dealt_to[name]) for name, some in groups.items()}
    briefing = Briefing(_join_blocks(blocks, known, "seldom"), _join_blocks(blocks, known, "often"))
    choices = tuple([_choice(item, tokens) for item in items])
    left = room - len(briefing.standing) - len(briefing.passing)
    uses = [
        SectionUse(name, tokens(dealt_to[name]), tokens(len(blocks[name])))
        if name in known
        else SectionUse(name, tokens(left), tokens(held))
        for name in [section.name for section in sections]
    ]
    return Assembly(briefing, choices, tuple(uses), problem)


def _score_candidates(
    candidates: Sequence[Candidate], known: Mapping[str, Section], message: str, now: float, first_words: bool
) -> list[_Item]:
    """Return the candidates with their scores: 1 in a section that changes seldom and so ignores the message."""
    items = []
    for candidate in candidates:
        section = known.get(candidate.section)
        items.append(_Item(candidate, 1.0, candidate.mandatory or (section is not None and section.mandatory)))
    asked = [item for item in items if item.candidate.section in known]
    asked = [item for item in asked if known[item.candidate.section].changes == "often"]
    texts = [item.candidate.text for item in asked]
    scores = scores_of(message, texts, first_words=first_words) if asked else []
    for item, score in zip(asked, scores, strict=True):
        item.score = apply_recency(score, item.candidate.at, now, known[item.candidate.section].recency)
    return items


def _group_by_section(items: Sequence[_Item], known: Mapping[str, Section]) -> dict[str, list[_Item]]:
    names = (*known, CONVERSATION, SOURCE_TAG)
    groups: dict[str, list[_Item]] = {name: [] for name in known}
    seen: set[tuple[str, str]] = set()
    for item in items:
        candidate = item.candidate
        section = known.get(candidate.section)
        item.why = _exclusion_reason(item, section, (candidate.section, candidate.text) in seen)
        if section is None or item.why:
            continue
        seen.add((candidate.section, candidate.text))
        if candidate.source:
            item.head = f'<{SOURCE_TAG} path="{attribute(candidate.source, names)}">\n'
            item.foot = f"\n</{SOURCE_TAG}>"
        item.text = escape_tags(candidate.text, names)
        groups[section.name].append(item)
    return groups


def _exclusion_reason(item: _Item, section: Section | None, twice: bool) -> str:
    if section is None:
        name = item.candidate.section
        return IS_CONVERSATION if name == CONVERSATION else f"there is no section {name!r}"
    if not item.candidate.text.strip():
        return EMPTY
    if item.mandatory:
        return ""
    if twice:
        return TWICE
    if section.changes == "often":
        if item.score <= 0:
            return NOTHING_OF_IT
        if item.score < section.floor:
            return f"its relevance of {item.score:.2f} is below the section's floor of {section.floor:g}"
    return ""


def _conversation(share: float, room: int, newest: int, held: int) -> Claim:
    """Return the conversation's claim: room for all of its messages, plus its share for this turn's additions."""
    part = thousandths(share)
    return Claim(part, newest, max(held + room * part // WHOLE, newest))


def _claim(section: Section, items: Sequence[_Item]) -> Claim:
    needed = sum([item.cost for item in items if item.mandatory])
    wanted = sum([item.cost for item in items])
    around = frame(section.name)
    return Claim(
        thousandths(section.share),
        needed + around if needed else 0,
        wanted + around if wanted else 0,
        section.changes == "seldom",
    )


def _unknown_section_error(items: Sequence[_Item], known: Mapping[str, Section]) -> str:
    """Return the error if a mandatory candidate has no section; else empty."""
    for item in items:
        if item.mandatory and item.candidate.section not in known:
            return (
                f"{_item_label(item)} has to be in the prompt, and {item.why}; there are {', '.join(known) or 'none'}"
            )
    return ""


def _overflow_error(items: Sequence[_Item], needed: int, left: int, tokens: Callable[[int], int]) -> str:
    """Return the error if mandatory texts exceed the room; empty if the message alone exceeds it."""
    forced = [item for item in items if item.mandatory and item.text]
    if not forced:
        return ""
    largest = max(forced, key=attrgetter("cost"))
    return (
        f"the texts that have to be in the prompt need about {tokens(needed)} tokens, and {tokens(max(left, 0))} are "
        f"left for them beside the message; shorten {_item_label(largest)} ({tokens(largest.cost)} tokens), or use a "
        "model with a longer context"
    )


def _item_label(item: _Item) -> str:
    candidate = item.candidate
    return f"{candidate.source!r}" if candidate.source else f"the text for {candidate.section!r}"


def _fill_section(section: Section, items: list[_Item], grant: int) -> str:
    """Return the section's text of at most ``grant`` characters, with the empty line before it; note each item's fate.

    All items after the first misfit are left out: with a smaller item in its place, a larger budget could show less.
    """
    seldom = section.changes == "seldom"
    best = items if seldom else sorted(items, key=attrgetter("score"), reverse=True)
    order = sorted(best, key=attrgetter("mandatory"), reverse=True)
    room, full = grant - frame(section.name), False
    for item in order:
        if not full and item.cost <= room:
            item.show(item.text, "included", MANDATORY if item.mandatory else FITS)
            room -= item.cost
            continue
        text = "" if full else trim(item.text, room - item.cost + len(item.text))
        full = True
        item.show(text, *(("trimmed", NOT_ALL) if text else ("left_out", NO_ROOM)))
    standing = items if seldom else order
    return element(section.name, [f"{item.head}{item.shown}{item.foot}" for item in standing if item.shown])


def trim(text: str, room: int) -> str:
    """Return the first 70 % and the last 30 % of a text with a note between them, in at most ``room`` characters.

    ``room`` is rounded down to a multiple of ``TRIM_STEP``. The result is empty if the text does not fit at all.
    """
    most = room // TRIM_STEP * TRIM_STEP - len(TRIMMED.format(len(text)))
    if most <= 0:
        return ""
    head = most * 7 // 10
    return elide(text, head, most - head, TRIMMED.format)


def _join_blocks(blocks: Mapping[str, str], known: Mapping[str, Section], changes: str) -> str:
    return "\n\n".join([block for name, block in blocks.items() if block and known[name].changes == changes])


def _choice(item: _Item, tokens: Callable[[int], int]) -> Choice:
    candidate = item.candidate
    whole = len(item.text or candidate.text)
    parts = tokens(whole), tokens(len(item.shown)), item.fate, item.why
    return Choice(candidate.section, candidate.source, item.score, *parts)
