"""What a llama-server counts, and what becomes of sessions where it doesn't."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cognition import UserMessage
from interpreters import Agent
from interpreters.observing.events import ContextAssembled, Event, WarningRaised
from runtime import RuntimeClosedError, TextCounter, load_model
from runtime.errors import TemplateError
from runtime.providers import _token_counts as counting
from runtime.providers._token_counts import estimate_tokens
from tests.runtime.asking import ask
from tests.runtime.providers.speaking import SpeakingServer

Answers = dict[str, Callable[[Any], Any]]
"""What is answered at each path, by the body: a JSON value, or the status of a failure."""


def by_words(texts: list[Any]) -> list[int]:
    """As llama-server has them: a token a word, and numbers where they stood."""
    return [token for one in texts for token in ([one] if isinstance(one, int) else [7] * len(str(one).split()))]


TOKENS: Answers = {
    "/tokenize": lambda body: {
        "tokens": by_words([body["content"]] if isinstance(body["content"], str) else body["content"])
    }
}
AT_ONCE: Answers = {"/v1/chat/completions/input_tokens": lambda body: {"input_tokens": len(json.dumps(body).split())}}
RENDERED: Answers = {"/apply-template": lambda body: {"prompt": json.dumps(body)}}


class Server:
    """Says that it is a llama-server, and answers as it is told to; its only reply is ``Yes.``"""

    def __init__(self) -> None:
        self.answers: Answers = {**TOKENS, **AT_ONCE, **RENDERED}
        self.asked: list[str] = []
        """The paths of what it was asked to count."""
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1|small"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Nothing is written anywhere."""

            def do_GET(self) -> None:
                listed = {"data": [{"id": "small", "owned_by": "llamacpp"}]}
                props = {"default_generation_settings": {"n_ctx": 2048}}
                self.say(listed if self.path == "/v1/models" else props if self.path == "/props" else 404)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path == "/v1/chat/completions":
                    chunk = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}
                    self.send(200, f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
                    return
                server.asked.append(self.path)
                self.say(server.answers.get(self.path, lambda _: 404)(body))

            def say(self, value: Any) -> None:
                status = value if isinstance(value, int) else 200
                error = {"error": {"message": "it can't be rendered"}}
                self.send(status, json.dumps(error if isinstance(value, int) else value))

            def send(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_texts_are_counted_in_one_round_trip(server: Server) -> None:
    with load_model(server.url) as model:
        assert isinstance(model, TextCounter)
        assert list(model.count_texts(["one two", "", "three"])) == [2, 0, 1]
        assert server.asked == ["/tokenize"]
        assert list(model.count_texts([])) == []
    with pytest.raises(RuntimeClosedError):
        model.count_texts(["one"])


def test_a_prompt_is_counted_once(server: Server) -> None:
    """What was asked before is remembered, up to a bound."""
    with load_model(server.url) as model:
        first, again = model.count_tokens(ask()), model.count_tokens(ask())

    assert first == again != estimate_tokens(ask())
    assert server.asked == ["/v1/chat/completions/input_tokens"]


def test_what_is_remembered_has_a_bound(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "REMEMBERED", 1)
    with load_model(server.url) as model:
        other = ask(UserMessage("m1", "Something else"))
        for request in (ask(), ask(max_tokens=3), other, ask()):  # the second shows the template nothing new
            model.count_tokens(request)

    assert len(server.asked) == 3


def test_an_older_server_renders_and_counts_in_two(server: Server) -> None:
    """It is asked once whether it can do both at once."""
    del server.answers["/v1/chat/completions/input_tokens"]
    with load_model(server.url) as model:
        assert model.count_tokens(ask()) != model.count_tokens(ask(UserMessage("m1", "Something else")))
        assert "estimated_counts" not in model.describe().features

    assert server.asked == ["/v1/chat/completions/input_tokens", *["/apply-template", "/tokenize"] * 2]


def test_what_the_template_refuses_is_no_failure_of_the_server(server: Server) -> None:
    server.answers["/v1/chat/completions/input_tokens"] = lambda _: 400
    with load_model(server.url) as model:
        with pytest.raises(TemplateError, match="it can't be rendered"):
            model.count_tokens(ask())
        assert "estimated_counts" not in model.describe().features


@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/completions/input_tokens"])
@pytest.mark.parametrize("said", [503, {}, {"tokens": [7]}, {"tokens": 3, "input_tokens": -1}, "no object"])
def test_what_was_not_counted_is_estimated_for_a_while(
    server: Server, path: str, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``describe`` says so, and the server is left alone until then."""
    server.answers[path] = lambda _: said
    with load_model(server.url) as model:
        if path == "/tokenize":
            assert list(model.count_texts(["one", "two"])) == []  # type: ignore[union-attr]  # it has it
        assert model.count_tokens(ask()) == estimate_tokens(ask())
        assert "estimated_counts" in model.describe().features
        assert "did not count tokens" in model.describe().warnings[-1]
        assert server.asked == [path]

        server.answers |= {**TOKENS, **AT_ONCE}
        monkeypatch.setattr(counting, "PAUSE", 0.0)
        model._counts._until = 0.0  # type: ignore[union-attr]  # the while is over
        assert model.count_tokens(ask()) != estimate_tokens(ask())
        assert "estimated_counts" not in model.describe().features


@pytest.mark.parametrize("broken", [(), ("/tokenize",), ("/v1/chat/completions/input_tokens",)])
@pytest.mark.parametrize("late", [False, True])
def test_a_session_is_counted_as_long_as_the_server_counts(server: Server, broken: tuple[str, ...], late: bool) -> None:
    """Where it fails, at the first message or later, the session goes on with estimates, and says so once."""
    reports: list[ContextAssembled] = []
    warnings: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            reports.append(event.value)
        if isinstance(event.value, WarningRaised):
            warnings.append(event.value.message)

    def breaks() -> None:
        server.answers |= {path: lambda _: 503 for path in broken}

    with load_model(server.url) as model, Agent(model, observers=[note]) as agent:
        if not late:
            breaks()
        texts = [agent.run("What is it?").text]
        breaks()
        texts += [agent.run(f"And now, {turn}?").text for turn in range(2)]

    assert texts == ["Yes."] * 3
    assert [one.counted for one in reports][:1] == [not broken or late]
    told = [
        one
        for one in warnings
        if "estimated from here on: the server did not count tokens when it was asked: it" in one
    ]
    # A later message has new texts alone counted, so that the other route is not asked again.
    assert len(told) == bool(broken and (not late or broken[0] == "/tokenize"))


def test_a_server_that_counts_no_texts_is_no_counter_of_texts() -> None:
    """So sessions estimate, and are corrected by what replies report."""
    from interpreters.testing.fakes import ScriptedModel

    server = SpeakingServer(ScriptedModel(["Yes."]))  # as vLLM
    try:
        with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
            assert not isinstance(model, TextCounter)
    finally:
        server.close()
