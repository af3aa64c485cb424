"""Tokenises a template's output so that marker tokens come only from the template.

Tokenizers differ in how they find markers: in the order of search, in normalising the text first, and in finding some
of them even if that is turned off. So this module checks the result. If it has other markers than the template wrote,
it tokenises the text in parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from functools import cached_property

from attrs import frozen

from runtime.errors import TemplateError
from runtime.protocol.backend import InferenceBackend
from runtime.templates.markers import Markers, split_at
from runtime.templates.template import RenderedPrompt

UNCOMMON = " \ufdd0 \U0010fffd 𒐫 龘 "
"""Characters that many vocabularies have no token for, and write as their unknown token."""

ANCHORS = ("\n", "|", "~", "\x00", "中", "a")
"""Texts to put before a part that continues in the middle of a text."""


@frozen(slots=False)
class PromptTokenizer:
    """Tokenises prompts with a backend's tokenizer."""

    backend: InferenceBackend
    markers: Markers

    @cached_property
    def _ids(self) -> dict[str, int]:
        known = {**self.backend.special.defined, **self.backend.special.control}
        return {text: known[text] for text in self.markers.texts if text in known}

    @cached_property
    def _watched_tokens(self) -> frozenset[int]:
        """Marker tokens, except those used for unknown characters: content may become these."""
        return frozenset(self._ids.values()).difference(self.backend.tokenize(UNCOMMON, special=False))

    @cached_property
    def _leads(self) -> bool:
        """Whether the tokenizer prepends a space to any text."""
        return b"".join(map(self.backend.piece, self.backend.tokenize("a", special=False))) == b" a"

    def tokens(self, rendered: RenderedPrompt) -> list[int]:
        """Return the tokens of a prompt.

        Raises:
            TemplateError: content has a character that this vocabulary can only write as a marker.
        """
        prompt = rendered.text
        own, cuts = self._own_markers(prompt, rendered.marked)
        tokens, start, rest = list[int](), 0, deque(own)
        for part in split_at(prompt, cuts) if cuts else (prompt,):
            within: list[tuple[int, int]] = []
            while rest and rest[0][1] <= start + len(part):
                first, last = rest.popleft()
                within.append((first - start, last - start))
            ids = [self._ids[part[first:last]] for first, last in within]
            if start:
                found = self._tokenize(part, special=True, continued=True)
            else:
                found = self.backend.tokenize(part, special=True)
            watched = self._watched_tokens
            if [token for token in found if token in watched] != [one for one in ids if one in watched]:
                found = self._apart(part, within, ids, continued=start > 0)
            tokens += found
            start += len(part)
        bos = self.backend.metadata.leading_bos
        return [bos, *tokens] if bos is not None and tokens[:1] != [bos] else tokens

    def content_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text as content in a prompt: without markers.

        Raises:
            TemplateError: as ``tokens``.
        """
        cuts = sorted({start + 1 for start, _ in self.markers.written.spans(text)})
        tokens = list[int]()
        for place, part in enumerate(split_at(text, cuts) if cuts else (text,)):
            found = self._tokenize(part, special=True, continued=place > 0)
            tokens += found if self._watched_tokens.isdisjoint(found) else self._plain(part, continued=place > 0)
        return tokens

    def _own_markers(self, prompt: str, marked: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
        """Return the spans of the template's own markers, and the places to cut the prompt so that no other marker is
        left.
        """
        own: list[tuple[int, int]] = []
        cuts: set[int] = set()
        for start, end in self.markers.written.spans(prompt):
            content = bisect_left(marked, start)
            if content < len(marked) and marked[content] < end:
                cuts.add(max(marked[content], start + 1))
            elif (not own or start >= own[-1][1]) and prompt[start:end] in self._ids:
                own.append((start, end))
        return own, sorted(cuts)

    def _apart(self, text: str, own: list[tuple[int, int]], ids: list[int], *, continued: bool) -> list[int]:
        """Return the tokens of a part of the prompt: its markers, and the texts between them by themselves."""
        tokens, before = list[int](), 0
        for (start, end), id in zip(own, ids, strict=True):
            tokens += [*self._plain(text[before:start], continued=continued), id]
            before, continued = end, True
        return tokens + self._plain(text[before:], continued=continued)

    def _plain(self, text: str, *, continued: bool, again: bool = False) -> list[int]:
        """Return the tokens of a text without markers. It is cut inside markers that the tokenizer finds anyway.

        ``again``: the text was already cut, at the wrong place, since the tokenizer normalises it first.
        """
        tokens = self._tokenize(text, special=False, continued=continued) if text else []
        if self._watched_tokens.isdisjoint(tokens):
            return tokens
        if len(text) == 1:
            raise TemplateError(f"the model's vocabulary has no way to write U+{ord(text):04X} but as a marker")
        places = {len(text) // 2} if again else self._inside(text, tokens)
        return [
            token
            for number, part in enumerate(split_at(text, sorted(places)))
            for token in self._plain(part, continued=continued or number > 0, again=True)
        ]

    def _inside(self, text: str, tokens: list[int]) -> set[int]:
        """Return the second character's position of each marker among the tokens, estimated from their lengths."""
        data, said, places = text.encode("utf-8", "replace"), 0, list[int]()
        for token in tokens:
            if token in self._watched_tokens:
                places.append(said)
            said += len(self.backend.piece(token))
        counted, characters, before = set[int](), 0, 0
        for place in places:
            characters += len(data[before:place].decode("utf-8", "ignore"))
            before = place
            counted.add(min(characters + 1, len(text) - 1))
        return counted

    def _tokenize(self, text: str, *, special: bool, continued: bool) -> list[int]:
        tokens = self.backend.tokenize(text, special=special)
        if not (continued and self._leads):
            return tokens
        for anchor in ANCHORS:  # so that the space that the tokenizer writes stands before this, and not in the text
            alone = self.backend.tokenize(anchor, special=special)
            whole = self.backend.tokenize(anchor + text, special=special)
            if whole[: len(alone)] == alone:
                return whole[len(alone) :]
        return tokens
