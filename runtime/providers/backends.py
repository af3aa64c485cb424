"""Backends: where remote models are, how they are spoken to, and what they cost, as plain values.

A backend never holds a key. It names the environment variable that does, which is read when a request is sent.

    >>> from runtime.providers.backends import Backend
    >>> Backend("office", "https://models.example.com/v1", key_env="OFFICE_KEY").dialect
    'openai'
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from attrs import Attribute, Factory, evolve, field, frozen

from cognition import ConfigError, Usage
from cognition.checking import checked, nearest, shown
from cognition.wire import DEFAULTS, HABITS, Dialect, Habits

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
"""Names of backends: what may stand before the slash of ``openai/gpt-5``."""

URL = "url"
"""The name of the backend that a URL in a model's name is."""

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110."""

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
"""Headers that carry keys: these come from the environment alone."""

OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
"""Headers that the connection itself writes."""


def _positive(instance: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:  # written so that NaN is refused too
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be above 0, not {value!r}")


def _not_negative(instance: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 <= value < float("inf"):
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be 0 or more, not {value!r}")


@checked
@frozen
class Timeouts:
    """Seconds that are waited at most. What takes longer ends as a failure, which an agent may try again."""

    connect: float = field(default=10.0, validator=_positive)
    """For a connection, TLS included."""
    first: float = field(default=600.0, validator=_positive)
    """From the request to the first byte of the reply: a server may compute a long prompt before it says anything."""
    silence: float = field(default=120.0, validator=_positive)
    """Between two pieces of a reply that has begun."""
    heartbeats: float = field(default=1800.0, validator=_positive)
    """While a server sends nothing but signs of life (comments, pings), as it does while a model thinks unseen."""
    whole: float | None = field(default=None, validator=_positive)
    """For the whole request, from ``submit`` to the last piece; None for no limit."""


@checked
@frozen
class Price:
    """What a model costs, in the currency of its provider's price list, for a million tokens."""

    input: float = field(default=0.0, validator=_not_negative)
    output: float = field(default=0.0, validator=_not_negative)
    cached: float | None = field(default=None, validator=_not_negative)
    """For those input tokens that a cache held; None: as ``input``."""

    def of(self, usage: Usage) -> float:
        """What these tokens cost."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, usage.input_tokens - usage.reused_tokens)
        return (fresh * self.input + usage.reused_tokens * cached + usage.output_tokens * self.output) / 1_000_000


ANY_SERVER = Habits()
"""What servers take that speak OpenAI's chat completions and of which no more is known."""

FREE = (("*", Price()),)
"""The prices of a server of one's own."""


def _pairs(value: Any) -> Any:
    """A mapping as pairs; a list of pairs as a tuple of tuples. The check that follows says what else is wrong."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(tuple(one) if isinstance(one, list) else one for one in value) if isinstance(value, list) else value


def url_of(text: str, what: str) -> SplitResult:
    """The parts of a base URL, checked.

    Raises:
        ConfigError: it is none, or holds what belongs elsewhere, such as a password.
    """
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{what} {shown(text)} is no URL: {error}") from None
    if parts.username is not None or parts.password is not None:  # said without the URL: it holds a secret
        raise ConfigError(
            f"{what} holds a user name or password; leave it out: a Backend names its key's variable (key_env=)"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{what} {shown(text)} must begin with https://HOST or http://HOST")
    if parts.query or parts.fragment or re.search(r"[^\x21-\x7e]", text):
        raise ConfigError(f"{what} {shown(text)} must end with its path, without ? and #, in plain ASCII")
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host's name says that it is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _usual_habits(dialect: Dialect) -> Habits:
    return ANY_SERVER if dialect == "openai" else DEFAULTS[dialect]


@checked
@frozen
class Backend:
    """One place where remote models are.

    Raises:
        ConfigError: a part of it can't be.
    """

    name: str
    """How model names call it: small letters, digits, ``_``, ``-`` and ``.``."""
    base_url: str
    """Up to the part that all routes have in common, such as ``https://api.openai.com/v1``."""
    dialect: Dialect = "openai"
    """How it is spoken to."""
    key_env: str = ""
    """The environment variable with the key; empty for a server that wants none."""
    key_header: str = ""
    """The header that carries the key. Empty: ``x-api-key`` in Anthropic's dialect, else ``Authorization`` as a bearer
    token."""
    key_optional: bool = False
    """Whether a request goes without a key where the variable is not set, as with servers that can be set up either
    way."""
    plain_http: bool = False
    """Whether the key may go over ``http://`` to another machine, where everyone on the way can read it."""
    headers: tuple[tuple[str, str], ...] = field(default=(), converter=_pairs)
    """More headers of every request, as pairs or a mapping. Keys have no place here."""
    timeouts: Timeouts = Timeouts()
    prices: tuple[tuple[str, Price], ...] = field(default=(), converter=_pairs)
    """Models with their prices, as pairs or a mapping; a name may end in ``*``. The first that fits holds. A model
    that none fits counts as free, and ``describe().warnings`` says so."""
    habits: Habits = Factory(lambda self: _usual_habits(self.dialect), takes_self=True)
    """What this server takes. By default, of a server that speaks OpenAI's chat completions, what all such servers do,
    or what its kind does if it turns out to be one that is known; in the other dialects what their own servers take."""
    context_tokens: int | None = field(default=None, validator=_positive)
    """The context length where the server doesn't tell it; None: not known."""
    one_model: bool = False
    """Whether it serves a single model, so that its name may be left out."""

    def __attrs_post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"Backend.name {shown(self.name)}: use small letters, digits, '_', '-' and '.'")
        if self.habits.dialect != self.dialect:
            raise ConfigError(
                f"the backend {self.name!r} has the dialect {self.dialect!r}, and habits of {self.habits.dialect!r}"
            )
        where = f"the base_url of the backend {self.name!r}"
        parts = url_of(self.base_url, where)
        if self.key_env and not ENVIRONMENT_NAME.fullmatch(self.key_env):  # not repeated: it may be the key itself
            raise ConfigError(f"key_env of the backend {self.name!r} must be the name of an environment variable")
        if self.key_env and parts.scheme == "http" and not (self.plain_http or is_loopback(parts.hostname or "")):
            raise ConfigError(
                f"{where} would send {self.key_env} unencrypted to another machine; use https://, or allow it with "
                "plain_http=True"
            )
        for header, value in (*self.headers, *([(self.key_header, "")] if self.key_header else [])):
            if not HEADER_NAME.fullmatch(header) or re.search(r"[^\x20-\x7e]", value):
                raise ConfigError(f"the header {shown(header)} of the backend {self.name!r} can't be sent as it is")
            if header.lower() in OWN_HEADERS:
                raise ConfigError(f"the header {header} of the backend {self.name!r} is written by the connection")
        for header, _value in self.headers:
            if header.lower() in SECRET_HEADERS:
                raise ConfigError(
                    f"the header {header} of the backend {self.name!r} carries a key: put the key into an environment "
                    "variable and name it with key_env=, and the header with key_header="
                )

    def price_of(self, model: str) -> Price | None:
        """The price of a model; None where it isn't known."""
        for pattern, price in self.prices:
            if model == pattern or (pattern.endswith("*") and model.startswith(pattern[:-1])):
                return price
        return None


def _built_in() -> Iterator[Backend]:
    for name, dialect, url, key in (
        ("openai", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai-responses", "responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic", "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ("openrouter", "openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("deepseek", "openai", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        ("groq", "openai", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "openai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("gemini", "openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        ("together", "openai", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("fireworks", "openai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        ("xai", "openai", "https://api.x.ai/v1", "XAI_API_KEY"),
    ):
        spoken: Dialect = dialect  # type: ignore[assignment]  # each is one
        habits = HABITS.get(name) or (DEFAULTS[spoken] if name.startswith("openai-") else None)
        yield Backend(name, url, spoken, key_env=key, habits=habits or ANY_SERVER)
    for name, url, key, habits in (
        ("llama-server", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY", HABITS["llama-server"]),
        ("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY", HABITS["vllm"]),
        ("mlx-server", "http://127.0.0.1:8080/v1", "", HABITS["mlx"]),
        ("lmstudio", "http://127.0.0.1:1234/v1", "", ANY_SERVER),
    ):
        one = name in ("llama-server", "vllm", "mlx-server")
        yield Backend(name, url, key_env=key, key_optional=True, prices=FREE, habits=habits, one_model=one)
    yield Backend("ollama", "http://127.0.0.1:11434/api", "ollama", prices=FREE)


@checked
@frozen
class Backends:
    """A registry of backends. A value: adding gives another one."""

    each: tuple[Backend, ...] = ()

    def __attrs_post_init__(self) -> None:
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"two backends are named {name!r}; give one of them another name")

    @property
    def names(self) -> tuple[str, ...]:
        """The backends' names, in their order."""
        return tuple(one.name for one in self.each)

    def get(self, name: str) -> Backend | None:
        """The backend of this name; None if there is none."""
        return next((one for one in self.each if one.name == name), None)

    def __getitem__(self, name: str) -> Backend:
        found = self.get(name)
        if found is None:
            raise ConfigError(f"there is no backend {shown(name)}{nearest(name, self.names)}")
        return found

    def adding(self, more: Iterable[Backend]) -> Backends:
        """A registry with these too; each takes the place of one that has its name.

        Raises:
            ConfigError: two of ``more`` have one name.
        """
        new = Backends(tuple(more))
        return Backends((*new.each, *(one for one in self.each if one.name not in new.names)))

    def setting(self, name: str, **changes: Any) -> Backends:
        """A registry in which the backend ``name`` has other values, such as ``base_url=`` or ``prices=``.

        Raises:
            ConfigError: there is no such backend, or the values can't be.
        """
        return self.adding([evolve(self[name], **changes)])


BACKENDS = Backends((*_built_in(),))
"""The backends that are known without anybody naming them."""
