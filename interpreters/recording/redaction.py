"""What is kept out of recordings: secrets, found by their shape, by patterns of the program's own, or by name.

Shapes are those that can hardly be anything else: keys with the prefixes that their issuers gave them so that scanners
find them (https://docs.github.com/en/code-security/secret-scanning), bearer tokens, private keys in PEM
(RFC 7468), passwords in URLs (RFC 3986, 3.2.1), and assignments as they stand in environment files. All are matched in
time linear in the text: tools return what strangers wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from cognition import ConfigError
from cognition.checking import checked

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""What a kind of secret, or a secret, can be named: it stands in the placeholder."""


@frozen
class Found:
    """A secret in a text: ``text[start:end]``. Raises ConfigError for a kind that can't stand in a placeholder."""

    start: int
    end: int
    kind: str = field(default="secret")

    @kind.validator
    def _check_kind(self, _attribute: Attribute[str], value: str) -> None:
        if not NAME.fullmatch(value):
            raise ConfigError(f"kind {value!r}: use letters, digits, '_', '-' and '.'")


Find = Callable[[str], Iterable[Found]]


@checked
@frozen
class Shape:
    """A kind of secret that shows by how it is written."""

    kind: str
    pattern: str
    """A regular expression, compiled when it is first needed. Its group ``secret``, or without such a group the whole
    match, is what is hidden."""
    anchors: tuple[str, ...]
    """One of them stands in each text that the pattern matches: looking for them takes a fraction of the time."""

    def find(self, text: str) -> Iterator[Found]:
        """Where secrets of this shape stand."""
        pattern = re.compile(self.pattern)  # `re` keeps what it has compiled
        group = "secret" if "secret" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            yield Found(*match.span(group), self.kind)


def _shape(kind: str, pattern: str, *anchors: str) -> Shape:
    return Shape(kind, pattern, anchors)


# Repetitions have an upper bound wherever what comes next may fail: else a text made for it takes quadratic time.
SHAPES: tuple[Shape, ...] = (
    # Anthropic, OpenAI and others; the digit tells them from words with hyphens
    _shape("api_key", r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{20,}", "sk-"),
    _shape("api_key", r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}", "_live_", "_test_"),  # Stripe
    _shape("api_key", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _shape("api_key", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{22,}", "github_pat_"),
    _shape("api_key", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}", "glpat-"),
    _shape("api_key", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}", "xox"),  # Slack
    _shape("api_key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA", "ASIA"),  # AWS
    _shape("api_key", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}", "AIza"),  # Google
    _shape("api_key", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}", "hf_"),  # Hugging Face
    _shape("api_key", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36,}", "npm_"),
    _shape("api_key", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{50,}", "pypi-"),
    # RFC 7519: two JSON objects and a signature, each as base64url
    _shape("token", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,}", "eyJ"),
    # RFC 6750; the digit tells it from prose
    _shape(
        "token",
        r"(?<![A-Za-z])[Bb](?:earer|EARER)\s{1,8}(?P<secret>(?=[A-Za-z._~+/-]{0,200}\d)[A-Za-z0-9._~+/-]{16,}=*)",
        "earer",
        "EARER",
    ),
    _shape(  # RFC 7617
        "password",
        r"[Aa](?:uthorization|UTHORIZATION)[\"']?\s{0,8}[:=]\s{0,8}[\"']?[Bb]asic\s{1,8}(?P<secret>[A-Za-z0-9+/]{4,}=*)",
        "uthorization",
        "UTHORIZATION",
    ),
    # whole, or up to where the text was cut
    _shape(
        "private_key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!--))*"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        "PRIVATE KEY",
    ),
    _shape(
        "password",
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@\"'\\<>]{0,256}:(?P<secret>[^\s/@\"'\\<>]{1,1024})@",
        "://",
    ),
    # AWS_SECRET_ACCESS_KEY=..., DB_PASSWORD: "..."; not MAX_TOKENS=4096, not TOKEN=$OTHER
    _shape(
        "assignment",
        r"(?<![A-Za-z0-9_])[A-Z0-9_]{0,60}(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY)[A-Z0-9_]{0,60}"
        r"[\"']?\s{0,8}[=:]\s{0,8}[\"']?(?P<secret>(?![$<(\[{]|os\.|process\.|\d+(?![^\s\"'\\;&|,)}\]]))"
        r"[^\s\"'\\;&|,)}\]]{8,})",
        "SECRET",
        "TOKEN",
        "PASSW",
        "API_KEY",
        "APIKEY",
        "ACCESS",
    ),
)
"""What is looked for unless told otherwise."""


def _check_names(_instance: object, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not NAME.fullmatch(name):
            raise ConfigError(f"{attribute.name}: {name!r}: use letters, digits, '_', '-' and '.'")
        if not text:
            raise ConfigError(f"{attribute.name}: {name} is empty")


def _checked(patterns: Mapping[str, str]) -> tuple[Shape, ...]:
    for kind, pattern in patterns.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"patterns: {kind}: {error} in {pattern!r}") from error
    return tuple(_shape(kind, pattern) for kind, pattern in patterns.items())


@checked
@frozen(eq=False)
class Redaction:
    """What is not to stand in a recording. The running session goes on with the real texts.

    Raises:
        ConfigError: a name or a pattern can't be used.
    """

    secrets: Mapping[str, str] = field(factory=dict, validator=_check_names, repr=False)
    """Secrets that the program knows, by name. Given again at a resume, they are known again there."""
    patterns: Mapping[str, str] = field(factory=dict, validator=_check_names)
    """Regular expressions by the kind of secret that they find: their group ``secret``, or the whole match. In the
    arguments of calls they are matched with each text for itself."""
    find: Find | None = None
    """Gives the secrets of a text, for what no pattern can find."""
    shapes: tuple[Shape, ...] = SHAPES
    """What is found without being told; ``()`` for nothing."""
    _anchored: tuple[tuple[str, Shape], ...] = field(init=False, repr=False)
    _others: tuple[Shape, ...] = field(init=False, repr=False)

    @_anchored.default
    def _anchors(self) -> tuple[tuple[str, Shape], ...]:
        return tuple((anchor, shape) for shape in self.shapes for anchor in shape.anchors)

    @_others.default
    def _without_anchors(self) -> tuple[Shape, ...]:
        return (*_checked(self.patterns), *(shape for shape in self.shapes if not shape.anchors))

    def may_be_in(self, text: str) -> bool:
        """Whether it is worth looking closer; asked for several texts in one, with something between them."""
        if self._others or self.find is not None:
            return True
        for anchor, _ in self._anchored:  # noqa: SIM110 - `any` takes twice the time
            if anchor in text:
                return True
        return False

    def found_in(self, text: str) -> list[Found]:
        """The secrets of a text in order, none of which overlap; those known by name are not looked for here.

        A text without any takes 2 microseconds, and a long one 5 milliseconds for each 100,000 characters.
        """
        likely = [shape for anchor, shape in self._anchored if anchor in text]
        if not likely and not self._others and self.find is None:
            return []
        found = [one for shape in dict.fromkeys((*self._others, *likely)) for one in shape.find(text)]
        if self.find is not None:
            found += [Found(max(one.start, 0), min(one.end, len(text)), one.kind) for one in self.find(text)]
        found.sort(key=lambda one: (one.start, -one.end))
        apart: list[Found] = []
        for one in found:
            if apart and one.start < apart[-1].end:
                apart[-1] = Found(apart[-1].start, max(apart[-1].end, one.end), apart[-1].kind)
            elif one.start < one.end:
                apart.append(one)
        return apart
