"""From a model's name to a backend and the model's name there. Pure: no look-ups, no requests.

- ``openai/gpt-5``: a model of a backend in the registry
- ``openrouter/a/b``: the same; only the first slash separates, the rest is the model's own name
- ``llama-server``: a backend that serves one model
- ``openai/gpt-oss-20b@groq``: the model ``openai/gpt-oss-20b`` of the backend ``groq``
- ``http://host/v1|model``: a model of any server with OpenAI's chat completions
- ``http://host/v1``: the only model of such a server
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from attrs import frozen

from cognition import ConfigError
from cognition.base.checking import nearest, show
from runtime.errors import ModelSpecError
from runtime.providers.backends import ANY_SERVER, FREE, URL, Backend, Backends, url_of

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
        raise ModelSpecError(
            f"{show(spec)}: there is no backend {show(name)}{nearest(name, backends.names)}", spec=spec
        )
    word = prefix if slash else spec
    if like := get_close_matches(word.lower(), backends.names, n=1, cutoff=LIKE):
        rest = f"/{model}" if slash else ""
        raise ModelSpecError(
            f"there is no file or directory {spec}, and no backend {word!r}; did you mean {like[0]}{rest}?", spec=spec
        )
    return None


def _make_name(spec: str, backend: Backend, model: str) -> RemoteName:
    if not model and not backend.one_model:
        raise ModelSpecError(
            f"{show(spec)} names no model, and {backend.name} serves several; write {backend.name}/NAME", spec=spec
        )
    return RemoteName(backend, _check_model(spec, model))


def _by_url(spec: str) -> RemoteName:
    url, _bar, model = spec.partition("|")
    try:
        url_of(url, "the URL of a model")
        backend = Backend(URL, url.rstrip("/"), prices=FREE, quirks=ANY_SERVER, one_model=True)
    except ConfigError as error:
        raise ModelSpecError(f"{error}; write {FORMS}", spec=_without_password(spec)) from None
    return RemoteName(backend, _check_model(spec, model))


def _check_model(spec: str, model: str) -> str:
    if re.search(r"[\x00-\x20\x7f]", model):
        raise ModelSpecError(f"the model's name in {show(spec)} holds white space or a control character", spec=spec)
    return model


def _without_password(spec: str) -> str:
    return re.sub(r"//[^/|]*@", "//", spec)
