"""Servers of ours that speak the documented protocols, and answer with a runtime: a real local model, or a script.

One of them listens on a free port of the loopback device and speaks all protocols, each at its own path. They are held
to the documents rather than to our encoder: a request that no real server would take is refused as a real one does.

==============================  =========================================================================
``/v1/chat/completions``        https://platform.openai.com/docs/api-reference/chat
``/v1/responses``               in ``speaking_responses``
``/v1/messages``, ``.../count_tokens``  https://docs.anthropic.com/en/api/messages
``/api/chat``, ``/api/show``    https://github.com/ollama/ollama/blob/main/docs/api.md
``/v1/models``, ``/tokenize``   as vLLM has them, with ``max_model_len``; of Anthropic ``/v1/models/NAME``
==============================  =========================================================================
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cognition import (
    AssistantMessage,
    CogstepError,
    Failure,
    GenerationOptions,
    History,
    Image,
    Message,
    ModelRequest,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from cognition.parsing import CallFinished, ReasoningDelta, TextDelta
from cognition.steps.retry import classify
from runtime import Done, Runtime

STATUS = {"rate_limit": 429, "context_overflow": 400, "auth": 401, "modality": 400, "transient": 503}

Json = dict[str, Any]


class RefusedError(Exception):
    """A request that a real server wouldn't take."""


class SpeakingServer:
    """Speaks for a runtime."""

    def __init__(self, runtime: Runtime, *, key: str = "", name: str = "small") -> None:
        """Listen. ``key``: what requests have to carry; empty for nothing."""
        self.runtime = runtime
        self.key = key
        self.name = name
        self.bodies: list[Json] = []
        """The requests that came, newest last."""
        self.cancelled = threading.Semaphore(0)
        """Counts the replies whose client has gone."""
        self.submitted = threading.Semaphore(0)
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.speaking = self
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Stop listening. The runtime is left alone."""
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    speaking: SpeakingServer
    lock = threading.Lock()

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # so that an event goes out in one packet

    @property
    def speaking(self) -> SpeakingServer:
        assert isinstance(self.server, _Listener)
        return self.server.speaking

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client has gone
            self.close_connection = True

    def do_GET(self) -> None:
        info = self.speaking.runtime.describe()
        if self.path == "/v1/models":
            about = {
                "id": self.speaking.name,
                "object": "model",
                "owned_by": "vllm",
                "max_model_len": info.context_tokens,
            }
            self._json(200, {"object": "list", "data": [about]})
        elif self.path == f"/v1/models/{self.speaking.name}":
            self._json(200, {"type": "model", "id": self.speaking.name, "max_input_tokens": info.context_tokens})
        else:
            self._json(404, {"error": {"message": "no such route", "type": "not_found_error"}})

    def do_POST(self) -> None:
        speaking = self.speaking
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        speaking.bodies.append(body)
        if speaking.key and not self._has_key():
            self._json(401, _error_of(self.path, Failure("the key is wrong", "auth", code="invalid_api_key")))
            return
        if body.get("model") != speaking.name and self.path != "/api/show":
            self._json(404, {"error": {"message": f"no model {body.get('model')!r}", "type": "not_found_error"}})
            return
        try:
            match self.path:
                case "/v1/chat/completions":
                    self._stream(of_openai(body), OpenAI(body))
                case "/v1/messages":
                    self._stream(of_anthropic(body), Anthropic(body))
                case "/v1/responses":
                    from tests.runtime.providers.speaking_responses import Responses, of_responses

                    self._stream(of_responses(body), Responses(body))
                case "/v1/messages/count_tokens":
                    self._json(200, {"input_tokens": speaking.runtime.count_tokens(of_anthropic(body))})
                case "/tokenize":
                    self._json(200, {"count": speaking.runtime.count_tokens(of_openai(body)), "tokens": []})
                case "/api/chat":
                    self._stream(of_ollama(body), Ollama(body))
                case "/api/show":
                    context = speaking.runtime.describe().context_tokens
                    self._json(
                        200,
                        {
                            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": context},
                            "capabilities": ["completion", "tools", "thinking"],
                            "parameters": f"num_ctx                        {context}",
                        },
                    )
                case _:
                    self._json(404, {"error": {"message": "no such route", "type": "not_found_error"}})
        except (RefusedError, CogstepError, KeyError, TypeError) as error:
            told = Failure(f"{type(error).__name__}: {error}", code="invalid_request_error")
            self._json(400, _error_of(self.path, told))

    def _has_key(self) -> bool:
        if self.path.startswith("/v1/messages") and self.headers.get("x-api-key") == self.speaking.key:
            return True  # as documented; Anthropic's own client sends a bearer token
        return self.headers.get("authorization") == f"Bearer {self.speaking.key}"

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _stream(self, request: ModelRequest, protocol: Protocol) -> None:
        speaking = self.speaking
        generation = speaking.runtime.submit(request)
        speaking.submitted.release()
        over = threading.Event()
        threading.Thread(target=self._watch, args=(generation, over), daemon=True).start()
        try:
            outputs = iter(generation)
            first = next(outputs)
            if isinstance(first, Done) and first.failure is not None:
                kind = classify(first.failure)
                self._json(STATUS.get(kind, 500), _error_of(self.path, first.failure))
                return
            self.send_response(200)
            self.send_header("content-type", protocol.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            for piece in protocol.pieces(_again(first, outputs)):
                data = piece.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except OSError:
            self.close_connection = True
            self._gone(generation, over)
        finally:
            over.set()

    def _watch(self, generation: Any, over: threading.Event) -> None:
        """Stops the model once the client has gone, as the real ones do."""
        while not over.wait(0.005):
            with contextlib.suppress(BlockingIOError):
                try:
                    # of the bare socket: a TLS socket's own method takes no flags
                    gone = socket.socket.recv(self.connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
                except BlockingIOError:
                    continue
                except OSError:
                    gone = True
                if gone:
                    self._gone(generation, over)
                    return

    def _gone(self, generation: Any, over: threading.Event) -> None:
        """The client has gone: to be noticed once."""
        assert isinstance(self.server, _Listener)
        with self.server.lock:
            known = over.is_set()
            over.set()
        if not known:
            generation.cancel()
            self.speaking.cancelled.release()


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _error_of(path: str, failure: Failure) -> Json:
    """An error as the server of a path tells it."""
    kind = classify(failure)
    message = failure.message
    if kind == "context_overflow":
        needed, available = failure.needed_tokens, failure.available_tokens
        if path.startswith("/v1/messages"):
            message = f"prompt is too long: {needed} tokens > {available} maximum"
        else:
            message = (
                f"This model's maximum context length is {available} tokens. However, your messages resulted in "
                f"{needed} tokens. Please reduce the length of the messages."
            )
    if path.startswith("/v1/messages"):
        kinds = {"rate_limit": "rate_limit_error", "auth": "authentication_error", "transient": "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(kind, "invalid_request_error"), "message": message}}
    if path.startswith("/api/"):
        return {"error": message}
    code = "context_length_exceeded" if kind == "context_overflow" else failure.code or kind
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


# ------------------------------------------------------------------------------------------------------------ requests


def _tools(listed: Any, key: str = "parameters") -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(one["name"], one.get("description", ""), one[key]) for one in listed)


def _numbered(messages: list[Any]) -> History:
    return History(messages)


def of_openai(body: Json) -> ModelRequest:
    """A request as chat completions have it."""
    system, messages = "", list[Message]()
    names: dict[str, str] = {}
    for number, one in enumerate(body["messages"]):
        mark, content = f"m{number}", one.get("content") or ""
        match one["role"]:
            case "system" | "developer":
                system = content
            case "user":
                messages.append(_user(mark, content, lambda part: part["image_url"]["url"]))
            case "assistant":
                calls = tuple(
                    ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                    for call in one.get("tool_calls") or ()
                )
                names |= {call.id: call.name for call in calls}
                thought = one.get("reasoning_content") or one.get("reasoning") or ""
                messages.append(AssistantMessage(mark, content, thought, calls))
            case "tool":
                messages.append(ToolMessage(mark, one["tool_call_id"], names[one["tool_call_id"]], content))
            case role:
                raise RefusedError(f"there is no role {role!r}")
    choice = body.get("tool_choice", "auto")
    thinking = body.get("chat_template_kwargs", {}).get("enable_thinking")
    biases = tuple((int(token), bias) for token, bias in (body.get("logit_bias") or {}).items())
    given = {key: body[key] for key in ("temperature", "seed", "top_p", "top_k", "min_p", "typical_p") if key in body}
    options = GenerationOptions(
        **given,
        max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        stop=tuple(body.get("stop", ())),
        thinking=thinking,
        tool_choice=choice if isinstance(choice, str) else choice["function"]["name"],
        parallel_calls=body.get("parallel_tool_calls", True),
        logit_bias=biases,
        frequency_penalty=body.get("frequency_penalty", 0.0),
        presence_penalty=body.get("presence_penalty", 0.0),
        repeat_penalty=body.get("repeat_penalty", body.get("repetition_penalty")),
    )
    tools = _tools(tool["function"] for tool in body.get("tools", ()))
    return ModelRequest(system, _numbered(messages), tools, options)


def _user(mark: str, content: Any, url: Any) -> UserMessage:
    if isinstance(content, str):
        return UserMessage(mark, content)
    parts: list[Any] = []
    for part in content:
        if part["type"] == "text":
            parts.append(TextPart(part["text"]))
        else:
            kind, _, data = url(part).removeprefix("data:").partition(";base64,")
            parts.append(Image(kind, data))
    return UserMessage(mark, "", parts=tuple(parts))


def of_anthropic(body: Json) -> ModelRequest:
    """A request as the messages API has it."""
    messages = list[Message]()
    names: dict[str, str] = {}
    if "max_tokens" not in body and body.get("stream"):
        raise RefusedError("max_tokens: Field required")
    before = ""
    for number, one in enumerate(body["messages"]):
        if one["role"] == before == "assistant":
            raise RefusedError("roles must alternate")
        before = one["role"]
        content = one["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if one["role"] == "assistant":
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
            calls = tuple(
                ToolCall(block["id"], block["name"], json.dumps(block["input"]))
                for block in blocks
                if block["type"] == "tool_use"
            )
            names |= {call.id: call.name for call in calls}
            messages.append(AssistantMessage(f"m{number}", text, thought, calls))
            continue
        texts = list[Any]()
        for place, block in enumerate(blocks):
            mark = f"m{number}.{place}"
            if block["type"] == "tool_result":
                content = block["content"]
                told = content if isinstance(content, str) else "".join(part["text"] for part in content)
                status: Any = "error" if block.get("is_error") else "ok"
                messages.append(ToolMessage(mark, block["tool_use_id"], names[block["tool_use_id"]], told, status))
            elif block["type"] == "image":
                source = block["source"]
                texts.append(Image(source["media_type"], source["data"]))
            else:
                texts.append(TextPart(block["text"]))
        if texts:
            plain = all(isinstance(part, TextPart) for part in texts)
            text = "\n".join(part.text for part in texts if isinstance(part, TextPart))
            messages.append(UserMessage(f"m{number}", text, parts=() if plain else tuple(texts)))
    choice = body.get("tool_choice", {"type": "auto"})
    words = {"auto": "auto", "none": "none", "any": "required"}
    thinking = {"enabled": True, "adaptive": True, "disabled": False}.get(body.get("thinking", {}).get("type"))
    given = {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body}
    options = GenerationOptions(
        **given,
        max_tokens=body.get("max_tokens"),
        stop=tuple(body.get("stop_sequences", ())),
        thinking=thinking,
        tool_choice=words.get(choice["type"]) or choice["name"],
        parallel_calls=not choice.get("disable_parallel_tool_use", False),
    )
    system = body.get("system", "")
    if not isinstance(system, str):
        system = "".join(block["text"] for block in system)
    return ModelRequest(system, _numbered(messages), _tools(body.get("tools", ()), "input_schema"), options)


def of_ollama(body: Json) -> ModelRequest:
    """A request as Ollama's chat has it."""
    system, messages = "", list[Message]()
    open_calls: list[ToolCall] = []
    for number, one in enumerate(body["messages"]):
        mark, content = f"m{number}", one.get("content", "")
        match one["role"]:
            case "system":
                system = content
            case "user":
                pictures = tuple(Image.of(_bytes(data)) for data in one.get("images", ()))
                parts = (TextPart(content), *pictures) if pictures else ()
                messages.append(UserMessage(mark, content, parts=parts))
            case "assistant":
                open_calls = [
                    ToolCall(f"{mark}.{place}", call["function"]["name"], json.dumps(call["function"]["arguments"]))
                    for place, call in enumerate(one.get("tool_calls") or ())
                ]
                messages.append(AssistantMessage(mark, content, one.get("thinking", ""), tuple(open_calls)))
            case "tool":
                call = open_calls.pop(0)
                messages.append(ToolMessage(mark, call.id, one.get("tool_name", call.name), content))
            case role:
                raise RefusedError(f"there is no role {role!r}")
    said = body.get("options", {})
    keys = ("temperature", "seed", "top_p", "top_k", "min_p", "typical_p", "repeat_penalty")
    given = {key: said[key] for key in keys if key in said}
    options = GenerationOptions(
        **given,
        max_tokens=said.get("num_predict"),
        stop=tuple(said.get("stop", ())),
        thinking=body.get("think"),
        frequency_penalty=said.get("frequency_penalty", 0.0),
        presence_penalty=said.get("presence_penalty", 0.0),
    )
    tools = _tools(tool["function"] for tool in body.get("tools", ()))
    return ModelRequest(system, _numbered(messages), tools, options)


def _bytes(data: str) -> bytes:
    from base64 import b64decode

    return b64decode(data)


# ------------------------------------------------------------------------------------------------------------- replies


class Protocol:
    """Writes a reply."""

    content_type = "text/event-stream"

    def __init__(self, body: Json) -> None:
        self.body = body

    def pieces(self, outputs: Iterator[Any]) -> Iterator[str]:
        """The pieces of the body."""
        raise NotImplementedError


def _event(value: Any, kind: str = "") -> str:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n"


class OpenAI(Protocol):
    """Chunks of a chat completion."""

    def pieces(self, outputs: Iterator[Any]) -> Iterator[str]:
        calls = 0
        yield self._chunk({"role": "assistant", "content": ""})
        for output in outputs:
            match output:
                case TextDelta(text):
                    yield self._chunk({"content": text})
                case ReasoningDelta(text):
                    yield self._chunk({"reasoning_content": text})
                case CallFinished(_, call):
                    head = {"index": calls, "id": f"call_{calls}", "type": "function"}
                    yield self._chunk({"tool_calls": [head | {"function": {"name": call.name, "arguments": ""}}]})
                    half = len(call.arguments_json) // 2
                    for piece in (call.arguments_json[:half], call.arguments_json[half:]):
                        yield self._chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                    calls += 1
                case Done():
                    if output.failure is not None:
                        yield _event(_error_of("/v1/chat/completions", output.failure))
                        return
                    for bad in output.malformed:
                        yield self._chunk({"content": bad.raw})
                    yield self._chunk({}, output.finish_reason)
                    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
                    yield _event({**head, "choices": [], "usage": _openai_usage(output.usage)})
                    yield "data: [DONE]\n\n"
                case _:
                    pass

    def _chunk(self, delta: Json, reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
        return _event({**head, "choices": [choice]})


def _openai_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


class Anthropic(Protocol):
    """Events of a message."""

    def pieces(self, outputs: Iterator[Any]) -> Iterator[str]:
        # The real server knows the prompt's size before it begins; ours knows it at the end, and tells it there too.
        start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "small"}
        usage = {"input_tokens": 0, "output_tokens": 1}
        yield _event({"type": "message_start", "message": start | {"usage": usage}}, "message_start")
        yield _event({"type": "ping"}, "ping")
        index, open_kind = -1, ""
        for output in outputs:
            match output:
                case TextDelta(text) | ReasoningDelta(text):
                    kind = "text" if isinstance(output, TextDelta) else "thinking"
                    if open_kind != kind:
                        if open_kind:
                            yield self._stop(index)
                        index, open_kind = index + 1, kind
                        yield self._start(index, {"type": kind, kind: ""})
                    yield self._delta(index, {"type": f"{kind}_delta", kind: text})
                case CallFinished(_, call):
                    if open_kind:
                        yield self._stop(index)
                    index, open_kind = index + 1, ""
                    block = {"type": "tool_use", "id": f"toolu_{index}", "name": call.name, "input": {}}
                    yield self._start(index, block)
                    half = len(call.arguments_json) // 2
                    for piece in ("", call.arguments_json[:half], call.arguments_json[half:]):
                        yield self._delta(index, {"type": "input_json_delta", "partial_json": piece})
                    yield self._stop(index)
                case Done():
                    if output.failure is not None:
                        yield _event(_error_of("/v1/messages", output.failure), "error")
                        return
                    if open_kind:
                        yield self._stop(index)
                    for bad in output.malformed:
                        index += 1
                        yield self._start(index, {"type": "text", "text": ""})
                        yield self._delta(index, {"type": "text_delta", "text": bad.raw})
                        yield self._stop(index)
                    reasons = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
                    delta = {"stop_reason": reasons[output.finish_reason], "stop_sequence": None}
                    fresh = output.usage.input_tokens - output.usage.reused_tokens
                    told = {
                        "input_tokens": fresh,
                        "cache_read_input_tokens": output.usage.reused_tokens,
                        "cache_creation_input_tokens": 0,
                        "output_tokens": output.usage.output_tokens,
                    }
                    yield _event({"type": "message_delta", "delta": delta, "usage": told}, "message_delta")
                    yield _event({"type": "message_stop"}, "message_stop")
                case _:
                    pass

    def _start(self, index: int, block: Json) -> str:
        return _event({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start")

    def _delta(self, index: int, delta: Json) -> str:
        return _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")

    def _stop(self, index: int) -> str:
        return _event({"type": "content_block_stop", "index": index}, "content_block_stop")


class Ollama(Protocol):
    """Lines of JSON."""

    content_type = "application/x-ndjson"

    def pieces(self, outputs: Iterator[Any]) -> Iterator[str]:
        for output in outputs:
            match output:
                case TextDelta(text):
                    yield self._line({"content": text})
                case ReasoningDelta(text):
                    yield self._line({"content": "", "thinking": text})
                case CallFinished(_, call):
                    function = {"name": call.name, "arguments": json.loads(call.arguments_json)}
                    yield self._line({"content": "", "tool_calls": [{"function": function}]})
                case Done():
                    if output.failure is not None:
                        yield json.dumps({"error": output.failure.message}) + "\n"
                        return
                    for bad in output.malformed:
                        yield self._line({"content": bad.raw})
                    reasons = {"stop": "stop", "tool_calls": "stop", "length": "length"}
                    end = {
                        "done": True,
                        "done_reason": reasons[output.finish_reason],
                        "prompt_eval_count": output.usage.input_tokens,
                        "eval_count": output.usage.output_tokens,
                    }
                    yield self._line({"content": ""}, end)
                case _:
                    pass

    def _line(self, message: Json, more: Json | None = None) -> str:
        head = {"model": "small", "created_at": "2026-01-01T00:00:00Z"}
        return json.dumps({**head, "message": {"role": "assistant", **message}, "done": False, **(more or {})}) + "\n"
