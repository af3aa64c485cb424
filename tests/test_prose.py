"""Pages and docstrings are in plain English: habits that make text hard to read are counted and bounded.

A habit is an expression and the number of times it may occur in 1,000 words. The bounds are those of well-written
documentation. Code, commands and quotations don't count: what stands in backquotes, in an indented or fenced block, in
a line that begins with ``>``, or between typographic quotes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HABITS = {
    "'what' as a noun: name the thing": (r"\bwhat\b(?![^.?!]*\?)", 2.5),
    "'told', 'said': returned, raised, logged, shown, sent": (r"\b(?:told|tells?|telling|said|says?|saying)\b", 1.5),
    "'whoever': the caller, the user, another process": (r"\b(?:no|some)body\b|\b(?:who|what|which)ever\b", 0.3),
    "'of which': begin a second sentence": (r"\b(?:of|by|in|from|with|for|to|on|at) which\b", 0.9),
    "'stands': is, contains": (r"\b(?:stands?|stood|standing)\b", 0.3),
    "'anew', 'goes on': again, continues": (
        r"\b(?:anew|besides|meanwhile|go(?:es)? on|went on|in the midst|at once|by itself|of its own)\b",
        0.6,
    ),
    "'is no': is not a": (r"\b(?:is|are|was|were) (?:no|none)\b|\b(?:has|have|had) none\b|\bno more\b", 1.0),
    "'is made', 'is kept': who does it?": (
        r"\b(?:comes?|came) of\b|\b(?:is|are|was|were) (?:made|given|kept|held|taken|meant|begun)\b",
        1.5,
    ),
}
LONGEST_SENTENCE = 40
"""Words; one sentence in 10,000 words may be longer."""
SPEAKS_TO_THE_READER = 0.10
"""The share of a page's sentences with "you"."""

PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "CHANGELOG.md"})
MODULES = sorted(
    path for name in ("cogstep", "cognition", "runtime", "interpreters") for path in (ROOT / name).rglob("*.py")
)

QUOTED = re.compile(r"“[^”]*”|``[^`]*``|`[^`]*`")


def prose_of_page(text: str) -> str:
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|>).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text).replace("|", ".\n\n")
    return re.sub(r"[#*_\[\]]", "", QUOTED.sub("X", text))


def prose_of_module(source: str) -> str:
    """The docstrings, and the texts below attributes."""
    texts = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    text = "\n\n".join(texts)
    return QUOTED.sub("X", re.sub(r"^\s*(?:>>>|\.\.\.).*$|^ {8,}\S.*$", "", text, flags=re.MULTILINE))


def sentences(prose: str) -> Iterator[str]:
    for part in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*]\s", prose):
        words = part.split()
        if len(words) > 2:
            yield " ".join(words)


def problems(texts: list[str]) -> list[str]:
    """The habits that occur more often than they may, and sentences that are too long."""
    written = [sentence for text in texts for sentence in sentences(text)]
    words = sum(len(sentence.split()) for sentence in written)
    found = []
    for name, (habit, most) in HABITS.items():
        hits = [sentence for sentence in written if re.search(habit, sentence, re.IGNORECASE)]
        count = sum(len(re.findall(habit, sentence, re.IGNORECASE)) for sentence in hits)
        if 1000 * count > most * words:
            found.append(f"{1000 * count / words:.1f} in 1,000 words, at most {most}: {name}. For example: {hits[:5]}")
    long = [sentence for sentence in written if len(sentence.split()) > LONGEST_SENTENCE]
    if len(long) > words / 10_000:
        found.append(f"sentences of more than {LONGEST_SENTENCE} words: {long[:5]}")
    return found


def test_the_pages_are_in_plain_english() -> None:
    assert problems([prose_of_page(path.read_text("utf-8")) for path in PAGES]) == []


def test_the_docstrings_are_in_plain_english() -> None:
    assert problems([prose_of_module(path.read_text("utf-8")) for path in MODULES]) == []


def test_the_pages_speak_to_the_reader() -> None:
    written = [sentence for path in PAGES for sentence in sentences(prose_of_page(path.read_text("utf-8")))]
    to_you = [sentence for sentence in written if re.search(r"\byou(?:r|rs|rself)?\b", sentence, re.IGNORECASE)]

    assert len(to_you) / len(written) >= SPEAKS_TO_THE_READER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It returns what was read by whoever stands there.", 3),
        ("It is no error, and is kept anew of its own.", 4),
        ("“What stands” is `what` it is told\n\n    what is said\n> what it says\n", 1),
        ("What does it do?", 0),
    ],
)
def test_a_habit_is_found_and_a_quotation_is_none(text: str, expected: int) -> None:
    prose = " ".join(sentences(prose_of_page(text)))

    assert sum(len(re.findall(habit, prose, re.IGNORECASE)) for habit, _ in HABITS.values()) == expected
