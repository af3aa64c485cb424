"""Text from users, files and tools can't become control tokens.

Where content holds the text of a control token, such as ``<|im_end|>``, a placeholder stands for it while the template
is rendered: one character of a private use plane of Unicode. The prompt is then tokenised around the placeholders, with
special tokens on, and what they stand for with special tokens off. A prompt without such text has no placeholders, so
it is tokenised in one piece, exactly as it would be without this module. (Around a placeholder the pieces are tokenised
apart; SentencePiece tokenizers may put a space before them.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from runtime.backend import Backend, SpecialTokens

FIRST_PLACEHOLDER, LAST_PLACEHOLDER = 0xF0000, 0xFFFFD
"""Supplementary Private Use Area-A: 65,534 characters to which Unicode will never give a meaning."""

PRIVATE = f"[{chr(FIRST_PLACEHOLDER)}-{chr(LAST_PLACEHOLDER)}]"


def control_texts(special: SpecialTokens, template_source: str) -> frozenset[str]:
    """Which special tokens content must not be able to write.

    All control tokens; of the tokens that somebody added, those that the template uses as markers: the others may be
    runs of spaces or pieces of text, which ordinary content is full of. Texts with quotes, backslashes or line ends
    are left out, since a template may write content as JSON, where they would look different; no marker has them.
    """
    used = (text for text in special.defined if text.strip() and text in template_source)
    return frozenset(text for text in (*special.control, *used) if len(text) > 1 and not re.search(r'["\\\r\n]', text))


class Shield:
    """Puts placeholders into the content of one request.

    Private characters that the content itself holds get placeholders too: so every one in the prompt is a placeholder.
    """

    def __init__(self, control: Iterable[str]) -> None:
        # The longest first: where one control text is the start of another, the whole of it is meant.
        texts = sorted(control, key=len, reverse=True)
        self._pattern = re.compile("|".join((*map(re.escape, texts), PRIVATE)))
        self._placeholders: dict[str, str] = {}

    @property
    def literals(self) -> dict[str, str]:
        """Each placeholder in use with the text that it stands for."""
        return {placeholder: text for text, placeholder in self._placeholders.items()}

    def text(self, content: str) -> str:
        """The content with a placeholder for each control text."""
        return self._pattern.sub(lambda match: self._placeholder(match[0]), content)

    def data(self, value: Any) -> Any:
        """The same for all texts in JSON data, keys included."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.data(item) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item) for item in value]
            case _:
                return value

    def _placeholder(self, text: str) -> str:
        if text not in self._placeholders:
            self._placeholders[text] = chr(FIRST_PLACEHOLDER + len(self._placeholders))
        return self._placeholders[text]


@frozen
class PromptTokenizer:
    """Tokenises rendered prompts with a backend's tokenizer."""

    backend: Backend
    control_ids: frozenset[int]
    """The tokens of ``control_texts``."""

    @classmethod
    def of(cls, backend: Backend, control: Iterable[str]) -> PromptTokenizer:
        known = {**backend.special.defined, **backend.special.control}
        return cls(backend, frozenset(known[text] for text in control))

    def tokens(self, prompt: str, literals: Mapping[str, str]) -> list[int]:
        """The prompt's tokens; ``literals`` says what its placeholders stand for."""
        tokens: list[int] = []
        if literals:
            pattern = "([" + "".join(map(re.escape, literals)) + "])"
            for part in re.split(pattern, prompt):
                if part in literals:
                    tokens += self._plain(literals[part])
                elif part:
                    tokens += self.backend.tokenize(part, special=True)
        else:
            tokens = self.backend.tokenize(prompt, special=True)
        bos = self.backend.metadata.leading_bos
        return [bos, *tokens] if bos is not None and tokens[:1] != [bos] else tokens

    def _plain(self, text: str) -> list[int]:
        """Tokens of a text, none of them a control token.

        Tokenizers find *added* tokens even with special tokens off; no token is found in a text that is cut inside it.
        """
        tokens = self.backend.tokenize(text, special=False)
        if len(text) > 1 and not self.control_ids.isdisjoint(tokens):
            return self._plain(text[:1]) + self._plain(text[1:])
        return tokens
