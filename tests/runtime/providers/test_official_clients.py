"""The servers that our runtimes are tried behind speak what the providers' own clients read: ``openai``, ``anthropic``
and ``ollama``, which ``make servers`` installs. Each is asked what our runtime is asked, and hears the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from runtime import Done
from tests.runtime.providers.conftest import KEY, Behind
from tests.runtime.providers.test_conformance import remote

pytestmark = [pytest.mark.llama, pytest.mark.slow]

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ASKED = "What is 17 * 23?"
MULTIPLY = ToolSpec("multiply", "Multiply two whole numbers.", SCHEMA)
FUNCTION = {"name": "multiply", "description": MULTIPLY.description, "parameters": SCHEMA}
MESSAGES: Any = [{"role": "user", "content": ASKED}]


@pytest.fixture
def ours(behind: Callable[[str], Behind], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[int, Done]]:
    """The port of the server of a dialect, and what our runtime hears there."""
    monkeypatch.setenv("COGSTEP_TEST_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def ask(dialect: str) -> tuple[int, Done]:
        server, _ = behind(dialect)
        request = ModelRequest("", History([UserMessage("m1", ASKED)]), (MULTIPLY,), GenerationOptions())
        with remote(dialect, server.port) as model:
            *_, done = model.submit(request)
        assert isinstance(done, Done)
        assert done.calls
        return server.port, done

    return ask


def test_openai_reads_chat_completions(ours: Callable[[str], tuple[int, Done]]) -> None:
    openai = pytest.importorskip("openai", reason="make servers installs the providers' clients")
    port, done = ours("openai")
    with openai.OpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
        tools: Any = [{"type": "function", "function": FUNCTION}]
        more: Any = {"stream_options": {"include_usage": True}}
        with client.chat.completions.stream(model="small", messages=MESSAGES, tools=tools, **more) as stream:
            whole = stream.get_final_completion()
        with pytest.raises(openai.AuthenticationError, match="the key is wrong"):
            client.with_options(api_key="another").chat.completions.create(model="small", messages=MESSAGES)
        assert [one.id for one in client.models.list()] == ["small"]

    (choice,) = whole.choices
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("multiply", done.calls[0].arguments_json)
    assert (choice.message.content or "") == done.text
    assert choice.finish_reason == "tool_calls"
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (
        done.usage.input_tokens,
        done.usage.output_tokens,
    )


def test_openai_reads_responses(ours: Callable[[str], tuple[int, Done]]) -> None:
    openai = pytest.importorskip("openai", reason="make servers installs the providers' clients")
    port, done = ours("responses")
    with openai.OpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
        tools: Any = [{"type": "function", "strict": False, **FUNCTION}]
        with client.responses.stream(model="small", input=ASKED, tools=tools) as stream:
            whole = stream.get_final_response()

    (call,) = [item for item in whole.output if item.type == "function_call"]
    assert (call.name, call.arguments) == ("multiply", done.calls[0].arguments_json)
    assert (whole.status, whole.output_text) == ("completed", done.text)
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (done.usage.input_tokens, done.usage.output_tokens)


def test_anthropic_reads_messages(ours: Callable[[str], tuple[int, Done]]) -> None:
    anthropic = pytest.importorskip("anthropic", reason="make servers installs the providers' clients")
    port, done = ours("anthropic")
    with anthropic.Anthropic(api_key=KEY, base_url=f"http://127.0.0.1:{port}", max_retries=0) as client:
        tools: Any = [{"name": "multiply", "description": MULTIPLY.description, "input_schema": SCHEMA}]
        asked: Any = {"model": "small", "messages": MESSAGES, "tools": tools}
        with client.messages.stream(max_tokens=500, **asked) as stream:
            whole = stream.get_final_message()
        counted = client.messages.count_tokens(**asked)
        with pytest.raises(anthropic.AuthenticationError, match="the key is wrong"):
            client.with_options(api_key="another").messages.create(max_tokens=5, **asked)

    (call,) = [block for block in whole.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("multiply", json.loads(done.calls[0].arguments_json))
    assert "".join(block.text for block in whole.content if block.type == "text") == done.text
    assert "".join(block.thinking for block in whole.content if block.type == "thinking") == done.reasoning
    assert whole.stop_reason == "tool_use"
    assert counted.input_tokens == done.usage.input_tokens
    assert whole.usage.output_tokens == done.usage.output_tokens


def test_ollama_reads_its_chat(ours: Callable[[str], tuple[int, Done]]) -> None:
    ollama = pytest.importorskip("ollama", reason="make servers installs the providers' clients")
    port, done = ours("ollama")
    tools: Any = [{"type": "function", "function": FUNCTION}]
    url, headers = f"http://127.0.0.1:{port}", {"authorization": f"Bearer {KEY}"}
    with ollama.Client(url, headers=headers) as client, ollama.Client(url) as stranger:
        pieces = list(client.chat("small", messages=MESSAGES, tools=tools, stream=True))
        about = client.show("small")
        with pytest.raises(ollama.ResponseError, match="the key is wrong"):
            stranger.chat("small", messages=MESSAGES)

    (call,) = [call for piece in pieces for call in piece.message.tool_calls or ()]
    assert (call.function.name, call.function.arguments) == ("multiply", json.loads(done.calls[0].arguments_json))
    assert "".join(piece.message.content or "" for piece in pieces) == done.text
    assert "".join(piece.message.thinking or "" for piece in pieces) == done.reasoning
    assert pieces[-1].prompt_eval_count > 0  # of another prompt: this client says more of a tool
    assert pieces[-1].eval_count == done.usage.output_tokens
    assert "tools" in about.capabilities
