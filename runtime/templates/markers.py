"""Finds the texts that content must not be able to write.

A *marker* is a text that has its own token in a vocabulary and a special meaning to a model: ``<|im_end|>``,
``<tool_call>``, ``<|"|>``. In a prompt only the template may write one.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise

from runtime.errors import TemplateError
from runtime.protocol.backend import SpecialTokens

BRACKETS = {"<": ">", "[": "]", "{": "}", "(": ")", "«": "»", "【": "】", "｜": "｜", "▁<": ">"}

WORDS = re.compile(r"[\w\s'.-]*")

JSON_SIGNS = '{}[]":,\\ \n'
"""The characters that ``tojson`` writes around content."""

ESCAPES = {r"\n": "\n", r"\"": '"', r"\'": "'", r"\\": "\\"}
"""Escapes in the strings of a template's source."""

CALL = re.compile(
    r"""
    \b(replace|r?split|r?partition|remove(?:pre|suf)fix)\s*+\(\s*+
    (?P<quote>['"])(?P<old>(?:\\.|(?!(?P=quote))[^\\])++)(?P=quote)
    (?:\s*+,\s*+(?:new\s*+=\s*+)?(?P<with>['"])(?P<new>(?:\\.|(?!(?P=with))[^\\])*+)(?P=with))?
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches calls that remove texts from content, cut it at them, or replace them."""

MOST_MARKED = 1 << 26
"""The sum of the squares of the lengths of all markers, since all their prefixes and suffixes are stored. The largest
vocabularies have about two million.
"""

MOST_WRITTEN, LONGEST_GONE = 64, 64
"""The most replaced characters of a template: each adds another set of markers, and further ones count as removed
texts. Of a removed text, the number of characters searched for: marks in its rest keep the template from removing it.
"""

REMEMBERED = 4096
"""The number of short contents in the cache."""


def control_texts(special: SpecialTokens, template_source: str) -> frozenset[str]:
    """Return the special tokens that content must not be able to write.

    These are all control tokens, all added tokens that are more than words or punctuation, and all other special tokens
    that the template uses. The rest is common in ordinary content: single characters, runs of spaces or punctuation,
    and words.
    """
    added = (text for text in special.defined if _is_marker_like(text) or (text.strip() and text in template_source))
    return frozenset(text for text in (*special.control, *added) if len(text) > 1)


def format_markers(special: SpecialTokens, template_source: str) -> frozenset[str]:
    """Return the control tokens, and the added tokens that the template uses: strings of a call can't contain them.

    Excludes texts with quotes, backslashes or line ends: strings of a call are constrained to JSON, which escapes
    these.
    """
    used = (text for text in special.defined if text.strip() and text in template_source)
    return frozenset(text for text in (*special.control, *used) if len(text) > 1 and not re.search(r'["\\\r\n]', text))


def _is_marker_like(text: str) -> bool:
    """Return whether an added token is neither words nor punctuation: ``<think>``, ``/nothink``, ``", "name": "``."""
    text = text.strip()
    if any(text.startswith(left) and text.endswith(right) for left, right in BRACKETS.items()):
        return len(text) > 1
    return not WORDS.fullmatch(text) and any(map(str.isalnum, text))


class TextFinder:
    """Searches for any of some texts; as fast for thousands of them as for ten.

    Args:
        texts: of at least two characters.
        any_case: whether to ignore case.
    """

    def __init__(self, texts: Iterable[str], *, any_case: bool = False) -> None:
        self._any_case = any_case
        self._texts = frozenset(map(self._fold, texts))
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        """By the first two characters, the longest first."""
        self._first = _one_of({text[0] for text in self._texts}, any_case)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match, the longest at each start; matches may overlap."""
        for found in self._first.finditer(text):
            start = found.start()
            for length in self._lengths.get(self._fold(text[start : start + 2]), ()):
                end = start + length
                if end <= len(text) and self._fold(text[start:end]) in self._texts:
                    yield start, end
                    break

    def _fold(self, text: str) -> str:
        return text.lower() if self._any_case else text


def _one_of(signs: set[str], any_case: bool) -> re.Pattern[str]:
    if any_case:
        signs = signs | {sign.upper() for sign in signs if len(sign.upper()) == 1}
    return re.compile(f"[{''.join(map(re.escape, sorted(signs)))}]" if signs else r"(?!)")


class Markers:
    """The markers of one model.

    Args:
        texts: the result of ``control_texts``.
        source: the source of the templates that may write some of them.
        spelled: texts that a tokenizer reads as one token though they represent another text, such as ``<0x0A>``.

    Raises:
        TemplateError: they are more numerous or longer than in any real model.
    """

    def __init__(self, texts: Iterable[str] = (), source: str = "", spelled: Iterable[str] = ()) -> None:
        self.texts: frozenset[str] = frozenset(texts)
        every = self.texts | frozenset(spelled)
        self.written: TextFinder = TextFinder(every)
        gone, written = _find_replacements(source)
        replaced = {text.replace(new, old) for text in every for old, new in written if new in text}
        hidden = every | replaced | {raw for text in every for raw in _before_escaping(text) if len(raw) > 1}
        if sum(len(text) ** 2 for text in hidden) > MOST_MARKED:
            raise TemplateError(
                "the vocabulary has more markers, or longer ones, than any model; fetch the model again"
            )
        self.hidden: TextFinder = TextFinder(hidden, any_case=True)
        """Finds them in content, also before the template writes it as JSON or HTML, or replaces characters."""
        gone = {old for old in gone if not any(self.hidden.spans(old))}  # markers have a mark within: none is taken out
        self._gone = TextFinder((old for old in gone if len(old) > 1), any_case=True)
        self._gone_signs = _one_of({old for old in gone if len(old) == 1}, any_case=True)
        self._takes_out = bool(gone)
        plain = re.sub(r"\\[n\"'\\]", lambda found: ESCAPES[found[0]], source)
        self._source = f"{source}\n{plain}".lower()
        self._folded = tuple(text.lower() for text in hidden)
        self._joined = "\n".join(self._folded)
        self.longest: int = max(map(len, hidden), default=0)
        # As content has them once it is trimmed.
        self._beginnings = {text[:length].rstrip() for text in self._folded for length in range(1, len(text))}
        self._ends = {text[-length:].lstrip() for text in self._folded for length in range(1, len(text))}
        self._may_begin = _one_of({text[0] for text in self._folded}, any_case=True)
        self._may_end = _one_of({text[-1] for text in self._folded}, any_case=True)
        self.completed_by: Callable[[str], bool] = lru_cache(REMEMBERED)(self._is_completed_by)
        """Whether the template may write both ends of a marker around a content, as ``<`` and ``>`` around ``think``.

        Cached, since short contents, such as the names in a tool's schema, repeat often.
        """

    def begins_in(self, content: str) -> bool:
        """Return whether the end of a content may begin a marker that the text after it completes."""
        tail = content[-self.longest :]
        if not tail or not self._may_begin.search(tail):
            return False
        tail = tail.lower()
        return any(tail[start:] in self._beginnings for start in range(len(tail)))

    def ends_in(self, content: str) -> bool:
        """Return whether the beginning of a content may end a marker that the text before it began."""
        head = content[: self.longest]
        if not head or not self._may_end.search(head):
            return False
        head = head.lower()
        return any(head[:length] in self._ends for length in range(1, len(head) + 1))

    def beside_removed(self, content: str) -> set[int]:
        """Return the positions of all text that remains if the template removes texts from this content, or cuts it at
        them.

        Each of them may become adjacent to any other text, also to the text removed next.
        """
        if not self._takes_out:
            return set()
        signs = ((found.start(), found.end()) for found in self._gone_signs.finditer(content))
        beside, end = list[range](), 0
        for start, stop in sorted((*self._gone.spans(content), *signs), key=lambda span: (span[0], -span[1])):
            if start >= end:
                beside.append(range(end, start))
                end = stop
        beside.append(range(end, len(content) if end else 0))
        return {place for places in beside for place in places if not content[place].isspace()}

    def _is_completed_by(self, content: str) -> bool:
        content = content.lower()
        if not 0 < len(content) < self.longest or content not in self._joined:
            return False
        return any(
            self._may_stand_before(left) and self._may_stand_behind(right)
            for text in self._folded
            if content in text
            for left, right in _around(text, content)
        )

    def _may_stand_before(self, left: str) -> bool:
        """Return whether the template may write this right before a content: one of its texts ends like that."""
        if left.endswith('"'):
            left = left.rstrip(JSON_SIGNS)
        return not left or re.search(rf"{re.escape(left)}\s*(?:['\"]|{{[{{%])", self._source) is not None

    def _may_stand_behind(self, right: str) -> bool:
        """Return whether the template may write this after a content, perhaps before others: one of its texts begins
        like that.
        """
        return (
            right[0] in JSON_SIGNS or re.search(rf"(?:['\"]|[%}}]}})\s*{re.escape(right[0])}", self._source) is not None
        )


def _find_replacements(source: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the texts that a template removes from contents, and the characters that it replaces: ``'`` by ``"``.

    Excludes single characters and spaces that it only splits contents at: there it iterates over lines or words.
    """
    gone, written = set[str](), set[tuple[str, str]]()
    for found in CALL.finditer(source):
        old, new = _read(found["old"]), _read(found["new"] or "")
        if len(old) == 1 and new and len(written) < MOST_WRITTEN:
            written.add((old, new))
        elif found[1] == "replace" or (len(old) > 1 and old.strip()):
            gone.add(old[:LONGEST_GONE])
    return gone, written


def _read(literal: str) -> str:
    with suppress(UnicodeDecodeError):  # the template is refused
        return literal.encode("ascii", "backslashreplace").decode("unicode-escape")
    return literal


def _around(text: str, content: str) -> Iterator[tuple[str, str]]:
    start = text.find(content, 1)
    while 0 < start < len(text) - len(content):
        yield text[:start], text[start + len(content) :]
        start = text.find(content, start + 1)


def _before_escaping(text: str) -> Iterator[str]:
    """Yield texts that become this text if a template writes them as a JSON string, or as HTML."""
    yield html.unescape(text)
    try:
        raw = json.loads(f'"{text}"')
    except ValueError:
        return
    yield str(raw)


def split_at(text: str, places: Iterable[int]) -> list[str]:
    """Return the text in parts, cut at these places in ascending order."""
    return [text[start:end] for start, end in pairwise((0, *places, len(text)))]
