"""Backends: address, protocol and prices of remote models, as plain values.

A backend never contains a key. It names the environment variable of the key, which is read for each request.

    >>> from runtime.providers.backends import Backend
    >>> Backend("office", "https://models.example.com/v1", key_env="OFFICE_KEY").dialect
    'openai'

A model's name leads to a backend and the name there, without look-ups and requests:

- ``openai/gpt-5``: a model of a backend in the registry
- ``openrouter/a/b``: the same; only the first slash separates, the rest is the model's own name
- ``llama-server``: a backend that serves one model
- ``openai/gpt-oss-20b@groq``: the model ``openai/gpt-oss-20b`` of the backend ``groq``
- ``http://host/v1|model``: a model of any server with OpenAI's chat completions
- ``http://host/v1``: the only model of such a server
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import SplitResult, urlsplit

from attrs import Attribute, Factory, evolve, field, frozen

from cognition import ConfigError, Usage
from cognition.base.checking import checked, nearest, show
from cognition.wire import DEFAULTS, QUIRKS, Dialect, Quirks
from runtime.errors import ModelSpecError

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
"""Names of backends: the part before the slash of ``openai/gpt-5``."""

URL = "url"
"""The backend name of a URL in a model's name."""

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
"""Headers that carry keys: these come only from the environment."""

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
    """Timeouts in seconds. A request that exceeds one fails, and an agent may retry it."""

    connect: float = field(default=10.0, validator=_positive)
    """For a connection, including TLS."""
    first: float = field(default=600.0, validator=_positive)
    """From the request to the first byte of the reply: a server may first compute a long prompt."""
    silence: float = field(default=120.0, validator=_positive)
    """Between two pieces of a running reply."""
    heartbeats: float = field(default=1800.0, validator=_positive)
    """While a server sends only signs of life (comments, pings), as during hidden reasoning."""
    whole: float | None = field(default=None, validator=_positive)
    """For the whole request, from ``submit`` to the last piece; None for no limit."""


@checked
@frozen
class Price:
    """The price of a model per million tokens, in the currency of its provider's price list."""

    input: float = field(default=0.0, validator=_not_negative)
    output: float = field(default=0.0, validator=_not_negative)
    cached: float | None = field(default=None, validator=_not_negative)
    """For cached input tokens; None: the same as ``input``."""

    def of(self, usage: Usage) -> float:
        """Return the cost of these tokens."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, usage.input_tokens - usage.reused_tokens)
        return (fresh * self.input + usage.reused_tokens * cached + usage.output_tokens * self.output) / 1_000_000


ANY_SERVER = Quirks()
"""Abilities common to all servers with OpenAI's chat completions, for a server that is not known better."""

FREE = (("*", Price()),)


def _pairs(value: Any) -> Any:
    """Convert a mapping to pairs, a list of pairs to a tuple of tuples. The later check reports other errors."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(tuple(one) if isinstance(one, list) else one for one in value) if isinstance(value, list) else value


def url_of(text: str, what: str) -> SplitResult:
    """Return the parts of a base URL, checked.

    Raises:
        ConfigError: it is not a base URL, or contains extra parts, such as a password.
    """
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{what} {show(text)} is no URL: {error}") from None
    if parts.username is not None or parts.password is not None:  # said without the URL: it holds a secret
        raise ConfigError(
            f"{what} holds a user name or password; leave it out: a Backend names its key's variable (key_env=)"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{what} {show(text)} must begin with https://HOST or http://HOST")
    if parts.query or parts.fragment or re.search(r"[^\x21-\x7e]", text):
        raise ConfigError(f"{what} {show(text)} must end with its path, without ? and #, in plain ASCII")
    return parts


def is_loopback(host: str) -> bool:
    """Return whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _usual_quirks(dialect: Dialect) -> Quirks:
    return ANY_SERVER if dialect == "openai" else DEFAULTS[dialect]


@checked
@frozen
class Backend:
    """One server, or service, of remote models.

    Raises:
        ConfigError: a value is invalid.
    """

    name: str
    """The name in model names: lower-case letters, digits, ``_``, ``-`` and ``.``."""
    base_url: str
    """The URL up to the common part of all routes, such as ``https://api.openai.com/v1``."""
    dialect: Dialect = "openai"
    """The API that it uses."""
    key_env: str = ""
    """The environment variable with the key; empty for a server without keys."""
    key_header: str = ""
    """The header that carries the key. Empty: ``x-api-key`` in Anthropic's dialect, else ``Authorization`` as a bearer
    token.
    """
    key_optional: bool = False
    """Whether to send requests without a key if the variable is not set, for servers that may or may not need one."""
    plain_http: bool = False
    """Whether to send the key over ``http://`` to another machine; it is then readable on the network."""
    headers: tuple[tuple[str, str], ...] = field(default=(), converter=_pairs)
    """Additional headers of every request, as pairs or a mapping. They must not contain keys."""
    timeouts: Timeouts = Timeouts()
    prices: tuple[tuple[str, Price], ...] = field(default=(), converter=_pairs)
    """Models with their prices, as pairs or a mapping; a name may end in ``*``. The first match counts. A model
    without a match counts as free, ``describe().warnings`` reports it, and ``Limits(cost=)`` refuses it.
    """
    quirks: Quirks = Factory(lambda self: _usual_quirks(self.dialect), takes_self=True)
    """The request features that this server supports. Default for OpenAI's chat completions: those of its kind of
    server if recognised, else those common to all. Default for other dialects: those of the original server.
    """
    context_tokens: int | None = field(default=None, validator=_positive)
    """The context length, used if the server does not report one; None: unknown."""
    one_model: bool = False
    """Whether it serves a single model, so that the model name is optional."""

    def __attrs_post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"Backend.name {show(self.name)}: use small letters, digits, '_', '-' and '.'")
        if self.quirks.dialect != self.dialect:
            raise ConfigError(
                f"the backend {self.name!r} has the dialect {self.dialect!r}, and habits of {self.quirks.dialect!r}"
            )
        where = f"the base_url of the backend {self.name!r}"
        parts = url_of(self.base_url, where)
        if self.key_env and not ENVIRONMENT_NAME.fullmatch(self.key_env):  # not repeated: it may be the key itself
            raise ConfigError(f"key_env of the backend {self.name!r} must be the name of an environment variable")
        if self.key_env and parts.scheme == "http" and not (self.plain_http or is_loopback(parts.hostname or "")):
            told = f"{where} would send {self.key_env} unencrypted to another machine"
            raise ConfigError(f"{told}; use https://, or allow it with plain_http=True")
        for header, value in (*self.headers, *([(self.key_header, "")] if self.key_header else [])):
            if not HEADER_NAME.fullmatch(header) or re.search(r"[^\x20-\x7e]", value):
                raise ConfigError(f"the header {show(header)} of the backend {self.name!r} can't be sent as it is")
            if header.lower() in OWN_HEADERS:
                raise ConfigError(f"the header {header} of the backend {self.name!r} is written by the connection")
        for header, _value in self.headers:
            if header.lower() in SECRET_HEADERS:
                raise ConfigError(
                    f"the header {header} of the backend {self.name!r} carries a key: put the key into an environment "
                    "variable and name it with key_env=, and the header with key_header="
                )

    def price_of(self, model: str) -> Price | None:
        """Return the price of a model, or None if unknown."""
        for pattern, price in self.prices:
            if model == pattern or (pattern.endswith("*") and model.startswith(pattern[:-1])):
                return price
        return None


def _built_in_backends() -> Iterator[Backend]:
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
        quirks = QUIRKS.get(name) or (DEFAULTS[spoken] if name.startswith("openai-") else None)
        yield Backend(name, url, spoken, key_env=key, quirks=quirks or ANY_SERVER)
    for name, url, key, quirks in (
        ("llama-server", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY", QUIRKS["llama-server"]),
        ("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY", QUIRKS["vllm"]),
        ("mlx-server", "http://127.0.0.1:8080/v1", "", QUIRKS["mlx"]),
        ("lmstudio", "http://127.0.0.1:1234/v1", "", ANY_SERVER),
    ):
        one = name in ("llama-server", "vllm", "mlx-server")
        yield Backend(name, url, key_env=key, key_optional=True, prices=FREE, quirks=quirks, one_model=one)
    yield Backend("ollama", "http://127.0.0.1:11434/api", "ollama", prices=FREE)


@checked
@frozen
class Backends:
    """A registry of backends, immutable: adding returns another."""

    each: tuple[Backend, ...] = ()

    def __attrs_post_init__(self) -> None:
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"two backends are named {name!r}; give one of them another name")

    @property
    def names(self) -> tuple[str, ...]:
        """The backends' names, in order."""
        return tuple(one.name for one in self.each)

    def get(self, name: str) -> Backend | None:
        """Return the backend of this name, or None."""
        return next((one for one in self.each if one.name == name), None)

    def __getitem__(self, name: str) -> Backend:
        found = self.get(name)
        if found is None:
            raise ConfigError(f"there is no backend {show(name)}{nearest(name, self.names)}")
        return found

    def adding(self, more: Iterable[Backend]) -> Backends:
        """Return a registry with these too; each replaces a backend of the same name.

        Raises:
            ConfigError: two of ``more`` have the same name.
        """
        new = Backends(tuple(more))
        return Backends((*new.each, *(one for one in self.each if one.name not in new.names)))

    def setting(self, name: str, **changes: Any) -> Backends:
        """Return a registry with changed values of the backend ``name``, such as ``base_url=`` or ``prices=``.

        Raises:
            ConfigError: there is no such backend, or a value is invalid.
        """
        return self.adding([evolve(self[name], **changes)])


BACKENDS = Backends((*_built_in_backends(),))


# ------------------------------------------------------------------------------------------------------ models' names

FORMS = "openai/NAME (or another backend), NAME@BACKEND, http://HOST/v1|NAME"

LIKE = 0.75
"""Minimum similarity (``difflib``, 0 to 1) of an unknown word to a backend's name to count as misspelt."""


@frozen
class RemoteName:
    """A model of a backend."""

    backend: Backend
    model: str
    """Empty: the server's only model."""

    @property
    def text(self) -> str:
        """A spec that parses to this name."""
        if self.backend.name == URL:
            return f"{self.backend.base_url}|{self.model}" if self.model else self.backend.base_url
        return f"{self.backend.name}/{self.model}" if self.model else self.backend.name


def remote_name(spec: str, backends: Backends) -> RemoteName | None:
    """Parse the name of a remote model; return None for a local model.

    Raises:
        ModelSpecError: it has the form of a remote model's name, but no valid meaning.
    """
    if re.match(r"https?:", spec, re.IGNORECASE):
        return _by_url(spec)
    if spec.startswith(("hf:", ".", "/", "~")) or not spec.strip():
        return None
    model, at, name = spec.rpartition("@")
    if at and (backend := backends.get(name)) is not None:
        return _make_name(spec, backend, model)
    if (backend := backends.get(spec)) is not None:
        return _make_name(spec, backend, "")
    prefix, slash, model = spec.partition("/")
    if slash and (backend := backends.get(prefix)) is not None:
        return _make_name(spec, backend, model)
    if at and "/" not in name and not spec.endswith(".gguf"):
        told = f"there is no backend {show(name)}{nearest(name, backends.names)}"
        raise ModelSpecError(f"{show(spec)}: {told}", spec=spec)
    if meant := _meant_elsewhere(spec, backends):
        raise ModelSpecError(f"there is no file or directory {spec}; did you mean {meant}?", spec=spec)
    word = prefix if slash else spec
    if like := get_close_matches(word.lower(), backends.names, n=1, cutoff=LIKE):
        meant = f"{like[0]}/{model}" if slash else like[0]
        told = f"there is no file or directory {spec}, and no backend {word!r}; did you mean {meant}?"
        raise ModelSpecError(told, spec=spec)
    return None


TAGGED = re.compile(r"(?:[\w.-]+/){0,2}[A-Za-z0-9][\w.-]+:[\w.-]+", re.ASCII)
"""A model's name in Ollama: ``qwen3:4b``, ``someone/qwen3:latest``."""

TAG = re.compile(r"(?:\d|latest$|e\d+b|v\d)", re.IGNORECASE)
"""Begins a tag of Ollama, which names a size or a version."""

SCHEMES = ("file", "ftp", "gs", "hf", "s3", "ssh")


def _meant_elsewhere(spec: str, backends: Backends) -> str:
    """Return the name here of a model that is named as in another program, or an empty text.

    ``PROVIDER:NAME`` is the form of pydantic-ai, LangChain and others; ``NAME:TAG`` is Ollama's.
    """
    first, colon, rest = spec.partition(":")
    provider = backends.get(first.lower())
    if colon and rest and provider is not None and (provider.name == "ollama" or not TAG.match(rest)):
        return f"{provider.name}/{rest}"
    if TAGGED.fullmatch(spec) and first.lower() not in SCHEMES and not spec.endswith(".gguf"):
        return f"ollama/{spec} (a model of Ollama)"
    return ""


def _make_name(spec: str, backend: Backend, model: str) -> RemoteName:
    if not model and not backend.one_model:
        told = f"{show(spec)} names no model, and {backend.name} serves several; write {backend.name}/NAME"
        raise ModelSpecError(told, spec=spec)
    return RemoteName(backend, _check_model(spec, model))


def _by_url(spec: str) -> RemoteName:
    url, _bar, model = spec.partition("|")
    try:
        url_of(url, "the URL of a model")
        backend = Backend(URL, url.rstrip("/"), quirks=ANY_SERVER, one_model=True)
    except ConfigError as error:
        without_password = re.sub(r"//[^/|]*@", "//", spec)
        raise ModelSpecError(f"{error}; write {FORMS}", spec=without_password) from None
    return RemoteName(backend, _check_model(spec, model))


def _check_model(spec: str, model: str) -> str:
    if re.search(r"[\x00-\x20\x7f]", model):
        raise ModelSpecError(f"the model's name in {show(spec)} holds white space or a control character", spec=spec)
    return model
