"""How calls of tools went, one line each in a file a day, and the digest of them for a prompt. Pure.

- 14:03 | fetch | failed | {"url": "https://example.com"} | HTTP 404
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal, get_args

from attrs import frozen

from runtime.stores.entries import one_line

How = Literal["succeeded", "failed", "denied", "approved"]
OUTCOMES: tuple[str, ...] = get_args(How)

LINE = re.compile(
    r"^- (\d{2}:\d{2}) \| ([^|\n]+) \| (succeeded|failed|denied|approved)(?: \| ([^\n]*))?$", re.MULTILINE
)
"""Whatever else stands in such a file is left alone."""

NAME, ARGUMENTS, DETAIL = 80, 80, 200
"""Characters of each that are kept."""

LONGEST_DIGEST = 2_400
"""Characters."""

TOOLS, LATEST = 6, 8
"""Tools that a digest counts, and the calls that it tells of."""


@frozen
class ToolOutcome:
    """How one call went."""

    day: str
    time: str
    tool: str
    outcome: str
    """``succeeded``, ``failed``, ``denied``, or ``approved`` by somebody who was asked, before it ran."""
    detail: str = ""
    """Its arguments and what came of it, in short."""


def outcome_line(time: str, tool: str, outcome: str, arguments: str, detail: str) -> str:
    """A call as its line."""
    parts = [time, one_line(tool, NAME).replace("|", "¦"), outcome]
    parts += [one_line(arguments, ARGUMENTS)] if arguments.strip() else []
    parts += [one_line(detail, DETAIL)] if detail.strip() else []
    return f"- {' | '.join(parts)}\n"


@frozen
class Tally:
    """How the calls of a time went, as much of it as a digest says."""

    counts: Mapping[tuple[str, str], int] = {}
    """How many, by tool and outcome."""
    ill: tuple[ToolOutcome, ...] = ()
    """The latest that did not succeed, oldest first, as many as a digest tells of."""

    def and_then(self, later: Tally) -> Tally:
        """Both times together."""
        return Tally(Counter(self.counts) + Counter(later.counts), (self.ill + later.ill)[-LATEST:])


def tally_of(text: str, day: str) -> Tally:
    """What a file of this day says; whatever else stands in it is left alone."""
    found = LINE.findall(text)
    ill = [one for one in found if one[2] not in ("succeeded", "approved")]
    latest = tuple(ToolOutcome(day, *one) for one in ill[-LATEST:])
    return Tally(Counter((tool, outcome) for _, tool, outcome, _ in found), latest)


def digest_of(tally: Tally, days: int) -> str:
    """What a model may know of how calls went, the same for the same calls; nothing where there were none.

    Args:
        tally: of these days.
        days: how many, for its first line.
    """
    made = Counter[str]()
    for (tool, outcome), count in tally.counts.items():
        made[tool] += count * (outcome != "approved")
    total = made.total()
    if not total:
        return ""
    well = sum(count for (_, outcome), count in tally.counts.items() if outcome == "succeeded")
    when = f"the last {days} days" if days > 1 else "today"
    lines = [f"Tool calls of {when}: {total}, of which {100 * well // total} % succeeded."]
    for tool, count in sorted(made.items(), key=lambda item: (-item[1], item[0]))[:TOOLS]:
        if count:
            how = {outcome: tally.counts.get((tool, outcome), 0) for outcome in OUTCOMES}
            lines.append(f"- {tool}: {', '.join(f'{how[one]} {one}' for one in OUTCOMES if how[one])}")
    if tally.ill:
        lines.append("The latest that did not succeed, newest first:")
    for one in reversed(tally.ill):
        line = f"- {one.day} {one.tool} {one.outcome}{': ' * bool(one.detail)}{one.detail}"
        if sum(map(len, lines)) + len(lines) + len(line) > LONGEST_DIGEST:
            break
        lines.append(line)
    return "\n".join(lines)
