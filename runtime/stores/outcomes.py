"""How calls of tools went, one line each in a file a day, and the digest of them for a prompt. Pure.

- 14:03 | fetch | failed | {"url": "https://example.com"} | HTTP 404
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from attrs import frozen

from runtime.stores.entries import one_line

How = Literal["succeeded", "failed", "denied", "approved"]
OUTCOMES: tuple[str, ...] = get_args(How)

LINE = re.compile(r"- (\d{2}:\d{2}) \| ([^|\n]+) \| (succeeded|failed|denied|approved)(?: \| ([^\n]*?))?")
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


def outcomes_in(text: str, day: str) -> list[ToolOutcome]:
    """The calls that a file tells of, in its order."""
    found = map(LINE.fullmatch, text.split("\n"))
    return [ToolOutcome(day, one[1], one[2], one[3], one[4] or "") for one in found if one is not None]


def digest_of(outcomes: Iterable[ToolOutcome], days: int) -> str:
    """What a model may know of how calls went, the same for the same calls; nothing where there were none.

    Args:
        outcomes: of these days, oldest first.
        days: how many, for its first line.
    """
    calls = list(outcomes)
    made = [one for one in calls if one.outcome != "approved"]
    if not made:
        return ""
    well = sum(one.outcome == "succeeded" for one in made)
    when = f"the last {days} days" if days > 1 else "today"
    lines = [f"Tool calls of {when}: {len(made)}, of which {100 * well // len(made)} % succeeded."]
    often = Counter(one.tool for one in made)
    for tool, _ in sorted(often.items(), key=lambda item: (-item[1], item[0]))[:TOOLS]:
        how = Counter(one.outcome for one in calls if one.tool == tool)
        lines.append(f"- {tool}: {', '.join(f'{how[one]} {one}' for one in OUTCOMES if how[one])}")
    ill = [one for one in made if one.outcome != "succeeded"]
    if ill:
        lines.append("The latest that did not succeed, newest first:")
    for one in ill[: -LATEST - 1 : -1]:
        line = f"- {one.day} {one.tool} {one.outcome}{': ' * bool(one.detail)}{one.detail}"
        if sum(map(len, lines)) + len(lines) + len(line) > LONGEST_DIGEST:
            break
        lines.append(line)
    return "\n".join(lines)
