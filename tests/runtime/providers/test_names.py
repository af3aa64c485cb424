"""Model names: which mean remote models, and which backend and model they mean. Nothing is asked."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from runtime import ModelSpecError
from runtime.providers.backends import BACKENDS, Backend, RemoteName, remote_name

NAMES = BACKENDS.names

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="-_./:@"), min_size=1).filter(
    lambda text: text.rpartition("@")[2] not in NAMES
)


def meant(spec: str) -> tuple[str, str]:
    found = remote_name(spec, BACKENDS)
    assert found is not None
    return found.backend.name, found.model


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai/gpt-5", ("openai", "gpt-5")),
        ("anthropic/claude-x", ("anthropic", "claude-x")),
        ("openrouter/a/b", ("openrouter", "a/b")),
        ("ollama/qwen3:4b", ("ollama", "qwen3:4b")),
        ("llama-server", ("llama-server", "")),
        ("llama-server/small", ("llama-server", "small")),
        ("openai/gpt-oss-20b@groq", ("groq", "openai/gpt-oss-20b")),
        ("gpt-5@openai", ("openai", "gpt-5")),
        ("http://127.0.0.1:8080/v1|small", ("url", "small")),
        ("https://models.example.com/v1", ("url", "")),
    ],
)
def test_names_of_remote_models(spec: str, expected: tuple[str, str]) -> None:
    assert meant(spec) == expected


@pytest.mark.parametrize(
    "spec",
    ["", "model.gguf", "./openai/x", "/models/x", "~/x", "hf:owner/repo@main", "hf:openai/gpt-oss-20b", "models/qwen"],
)
def test_names_of_local_models_are_left_alone(spec: str) -> None:
    assert remote_name(spec, BACKENDS) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("opnai/gpt-5", "no backend 'opnai'; did you mean openai/gpt-5"),
        ("OpenAI/gpt-5", "did you mean openai/gpt-5"),
        ("x@opnai", "there is no backend 'opnai'; did you mean 'openai'"),
        ("ollama", "names no model, and ollama serves several; write ollama/NAME"),
        ("openai/", "names no model"),
        ("openai/gpt 5", "holds white space"),
        ("https://", "must begin with https://HOST"),
        ("http://host/v1?key=1|m", "without [?] and #"),
        ("http://host:99999/v1", "is no URL"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_what_is_near(spec: str, said: str) -> None:
    with pytest.raises(ModelSpecError, match=said):
        remote_name(spec, BACKENDS)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("qwen3:4b", "ollama/qwen3:4b "),
        ("llama3.2:latest", "ollama/llama3.2:latest "),
        ("mistral:7b", "ollama/mistral:7b "),
        ("deepseek-r1:8b-llama-distill-q4_K_M", "ollama/deepseek-r1:8b-llama-distill-q4_K_M "),
        ("gpt-oss:20b", "ollama/gpt-oss:20b "),
        ("someone/qwen3:4b", "ollama/someone/qwen3:4b "),
        ("hf.co/someone/qwen3:Q4_K_M", "ollama/hf.co/someone/qwen3:Q4_K_M "),
        ("ollama:qwen3:4b", r"ollama/qwen3:4b\?"),
        ("ollama:llama3", r"ollama/llama3\?"),
        ("openai:gpt-5", r"openai/gpt-5\?"),
        ("Anthropic:claude-x", r"anthropic/claude-x\?"),
        ("mistral:mistral-small", r"mistral/mistral-small\?"),
    ],
)
def test_a_name_of_another_program_is_led_to_ours(spec: str, meant: str) -> None:
    """Ollama's ``NAME:TAG``, and the ``PROVIDER:NAME`` of other frameworks. What is suggested is a name."""
    with pytest.raises(ModelSpecError, match=f"there is no file or directory {spec}; did you mean {meant}"):
        remote_name(spec, BACKENDS)
    assert remote_name(meant.rstrip("\\? "), BACKENDS) is not None


@pytest.mark.parametrize("spec", ["model:q4.gguf", "file:model", "a:b", "hf:x", "claude:", "a b:c", ":x", "x:"])
def test_other_names_with_a_colon_are_left_alone(spec: str) -> None:
    assert remote_name(spec, BACKENDS) is None


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ModelSpecError, match="holds a user name or password") as caught:
        remote_name("http://user:hunter2@host/v1|m", BACKENDS)

    assert "hunter2" not in str(caught.value) + caught.value.spec


@given(st.sampled_from(NAMES), WORDS)
def test_a_name_is_read_as_it_is_written(backend: str, model: str) -> None:
    """``backend/model`` means just that, whatever stands in the model's name; its text is read as the same."""
    found = remote_name(f"{backend}/{model}", BACKENDS)

    assert found == RemoteName(BACKENDS[backend], model)
    assert found is not None
    assert remote_name(found.text, BACKENDS) == found


@given(st.text(max_size=30))
def test_any_text_means_something_or_is_refused_in_words(spec: str) -> None:
    """Never another kind of error."""
    with contextlib.suppress(ModelSpecError):
        found = remote_name(spec, BACKENDS)
        assert found is None or found.backend.name in (*NAMES, "url")


def test_a_backend_of_ones_own_stands_beside_and_before_the_built_in_ones() -> None:
    mine = Backend("office", "https://models.example.com/v1", key_env="OFFICE_KEY")
    other = Backend("openai", "https://proxy.example.com/v1", key_env="OFFICE_KEY")
    registry = BACKENDS.adding([mine, other])

    found = remote_name("office/x", registry), remote_name("openai/x", registry)
    assert [one and one.backend for one in found] == [mine, other]
    assert set(registry.names) == {*NAMES, "office"}
