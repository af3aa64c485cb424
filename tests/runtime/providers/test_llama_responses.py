"""llama-server, spoken to in responses: what it is shows in its list of models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cognition.wire import QUIRKS
from runtime import Backend, Done, load_model
from tests.cognition.wire.sent import asked

CUT = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "It is"}]}
ANSWERS: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "small", "owned_by": "llamacpp"}]},
    "/props": {"default_generation_settings": {"n_ctx": 4096}},
    "/v1/responses": {"object": "response", "status": "completed", "output": [CUT], "usage": {"output_tokens": 2}},
}


@pytest.fixture
def bodies() -> list[Any]:
    return []


@pytest.fixture
def server(bodies: list[Any]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = json.dumps(ANSWERS[self.path]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield listening.server_port
        listening.shutdown()


def test_a_reply_that_it_calls_completed_was_cut(server: int, bodies: list[Any]) -> None:
    """It has its own habits: greedy where nobody has chosen, its context as it tells, and cuts that show in counts."""
    backend = Backend("ours", f"http://127.0.0.1:{server}/v1", "responses", one_model=True)
    with load_model("ours", backends=[backend]) as model:
        *_, done = model.submit(asked(max_tokens=2))

        assert model.describe().context_tokens == 4096
        assert "estimated_counts" not in model.describe().features
    assert isinstance(done, Done)
    assert (done.text, done.finish_reason, bodies[0]["temperature"]) == ("It is", "length", 0.0)


def test_habits_that_somebody_has_given_stay(server: int, bodies: list[Any]) -> None:
    quirks = QUIRKS["responses"].__class__(dialect="responses", stop="stops")
    backend = Backend("ours", f"http://127.0.0.1:{server}/v1", "responses", one_model=True, quirks=quirks)
    with load_model("ours", backends=[backend]) as model:
        *_, done = model.submit(asked(max_tokens=2, stop=("x",)))

    assert isinstance(done, Done)
    assert (done.finish_reason, bodies[0]["stops"]) == ("stop", ["x"])
