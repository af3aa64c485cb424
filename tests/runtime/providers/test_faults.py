"""What goes wrong on the way to a server and back ends as a truthful ``Done``: no exception, no hang, no success."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition.steps.retry import classify
from interpreters.testing.fakes import FunctionModel, Hold, Reply, ScriptedModel, call
from runtime import Done, ModelOptionsError, load_model
from runtime.providers.backends import Backend, Timeouts
from runtime.providers.remote import RemoteRuntime
from tests.runtime.asking import MULTIPLY, ask, reply
from tests.runtime.providers.conftest import KEY, PATHS
from tests.runtime.providers.fault_proxy import KINDS, Fault, FaultProxy
from tests.runtime.providers.speaking import SpeakingServer

QUICK = Timeouts(connect=5, first=5, silence=0.3)

TEXT = "Seventeen times twenty-three is 391, as anybody may see."
REPLY = Reply(TEXT, reasoning="I should multiply.", calls=(call("multiply", a=17, b=23),))


@pytest.fixture(scope="module")
def server() -> Iterator[SpeakingServer]:
    """One that always says the same."""
    made = SpeakingServer(ScriptedModel(itertools.cycle([REPLY])), key=KEY)
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxy(server: SpeakingServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as made:
        yield made


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COGSTEP_TEST_KEY", KEY)


def backend(port: int, dialect: Any = "openai", **options: Any) -> Backend:
    url = f"http://127.0.0.1:{port}{PATHS[dialect]}"
    return Backend("ours", url, dialect, key_env="COGSTEP_TEST_KEY", **{"timeouts": QUICK, **options})


def remote(port: int, dialect: Any = "openai", **options: Any) -> RemoteRuntime:
    made = load_model("ours/small", backends=[backend(port, dialect, **options)])
    assert isinstance(made, RemoteRuntime)
    return made


@contextmanager
def answering(body: str) -> Iterator[int]:
    """The port of a server that answers whatever it is asked with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Nothing is written anywhere."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        yield listener.server_address[1]
        listener.shutdown()


def text_of(outputs: list[Any]) -> str:
    return "".join(one.text for one in outputs if type(one).__name__ == "TextDelta")


@pytest.mark.parametrize("dialect", PATHS)
def test_without_a_fault_the_proxy_changes_nothing(proxy: FaultProxy, dialect: str) -> None:
    with remote(proxy.port, dialect) as model:
        done = reply(model, ask(tools=(MULTIPLY,)))

    assert (done.text, done.reasoning, done.finish_reason) == (TEXT, "I should multiply.", "tool_calls")
    assert [(one.name, one.arguments_json) for one in done.calls] == [("multiply", '{"a": 17, "b": 23}')]


@pytest.mark.parametrize("dialect", PATHS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from([kind for kind in KINDS if kind != "none"]), after=st.integers(0, 2500))
def test_any_fault_ends_truthfully(proxy: FaultProxy, dialect: str, kind: Any, after: int) -> None:
    """What was shown is what the ``Done`` says; what is no whole reply is a failure without calls; the next works."""
    short = kind == "silence"  # a busy machine may be silent for as long, with any other fault and behind it
    with remote(proxy.port, dialect, timeouts=evolve(QUICK, silence=0.05 if short else 5)) as model:
        proxy.next(Fault(kind, after, seconds=0.2))
        *outputs, done = model.submit(ask(tools=(MULTIPLY,)))
        for _ in range(5 if short else 1):
            after_it = reply(model, ask(tools=(MULTIPLY,)))
            if after_it.failure is None:
                break

    assert isinstance(done, Done)
    assert done.text == text_of(outputs)
    assert TEXT.startswith(done.text) or kind == "garble"
    if done.finish_reason == "error":
        assert done.failure is not None
        assert done.calls == ()
        assert classify(done.failure) in ("transient", "bad_output", "offline")
    elif kind != "garble":  # the fault came behind the reply, or was none
        assert (done.text, done.finish_reason, done.failure) == (TEXT, "tool_calls", None)
        assert [json.loads(one.arguments_json) for one in done.calls] == [{"a": 17, "b": 23}]
    assert (after_it.text, after_it.failure) == (TEXT, None)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "retry_after"),
    [
        (429, (("retry-after", "7"),), "rate_limit", 7.0),
        (500, (), "transient", None),
        (503, (("retry-after", "2"),), "transient", 2.0),
        (401, (), "auth", None),
        (403, (), "auth", None),
        (404, (), "fatal", None),
        (413, (), "context_overflow", None),
    ],
)
def test_a_status_is_the_failure_that_it_means(
    proxy: FaultProxy, status: int, headers: Any, kind: str, retry_after: float | None
) -> None:
    """Nothing is tried again behind the core's back: one request, one answer."""
    with remote(proxy.port) as model:
        before = proxy.requests
        proxy.next(Fault("status", status=status, headers=headers))
        done = reply(model, ask())

    assert done.failure is not None
    assert (classify(done.failure), done.failure.status, done.failure.retry_after) == (kind, status, retry_after)
    assert proxy.requests == before + 1


def test_a_redirection_is_not_followed(proxy: FaultProxy, server: SpeakingServer) -> None:
    """It could take the key and the conversation anywhere."""
    seen = len(server.bodies)
    with remote(proxy.port) as model:
        proxy.next(Fault("status", status=307, headers=(("location", "http://evil.example.com/v1"),)))
        done = reply(model, ask())

    assert done.failure is not None
    assert (classify(done.failure), done.failure.code) == ("fatal", "redirect")
    assert "evil.example.com" in done.failure.message
    assert len(server.bodies) == seen


@pytest.mark.parametrize(
    ("host", "code"), [("127.0.0.1:1", "connect"), ("nowhere.invalid", "name"), ("[::1]:1", "connect")]
)
def test_nobody_there_is_offline(host: str, code: str) -> None:
    """Refused connections and unknown names. The model can be described all the same."""
    with load_model(f"http://{host}/v1|small") as model:
        done = reply(model, ask())
        info = model.describe()

    assert done.failure is not None
    assert (done.failure.kind, done.failure.code) == ("offline", code)
    assert any("could not be asked" in one for one in info.warnings)


def test_tls_is_spoken_where_it_is_said(server: SpeakingServer) -> None:
    with load_model(f"https://127.0.0.1:{server.port}/v1|small") as model:
        done = reply(model, ask())

    assert done.failure is not None
    assert (done.failure.kind, done.failure.code) == ("offline", "tls")


class TestTime:
    def test_silence_in_the_middle(self, proxy: FaultProxy) -> None:
        with remote(proxy.port, timeouts=Timeouts(silence=0.1)) as model:
            proxy.next(Fault("silence", after=400, seconds=30))
            done = reply(model, ask())

        assert done.failure is not None
        assert (done.failure.kind, done.failure.code) == ("transient", "timeout_silence")
        assert "nothing for 0.1 s" in done.failure.message

    def test_no_first_byte(self, proxy: FaultProxy) -> None:
        with remote(proxy.port, timeouts=Timeouts(first=0.1)) as model:
            proxy.next(Fault("delay", seconds=30))
            done = reply(model, ask())

        assert done.failure is not None
        assert done.failure.code == "timeout_first"

    @pytest.mark.parametrize(
        "fault", [Fault("delay", seconds=30), Fault("silence", after=400, seconds=30), Fault("slow")]
    )
    def test_the_whole_takes_too_long(self, proxy: FaultProxy, fault: Fault) -> None:
        """Also of a server that never falls silent, and is just slow."""
        big = SpeakingServer(ScriptedModel(itertools.cycle(["word " * 100_000])))
        with FaultProxy(big.port) as slow:
            made = load_model(
                "ours/small",
                backends=[Backend("ours", f"http://127.0.0.1:{slow.port}/v1", timeouts=Timeouts(whole=0.2))],
            )
            with made as model:
                slow.next(fault)
                done = reply(model, ask())
        big.close()

        assert done.failure is not None
        assert (done.failure.kind, done.failure.code) == ("transient", "timeout_whole")

    def test_a_connection_that_never_comes(self) -> None:
        """A listener that accepts nobody, its queue full."""
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
            model = runtime_of(Backend("ours", url, timeouts=Timeouts(connect=0.1)))
            done = reply(model, ask())
            endless = runtime_of(Backend("ours", url, timeouts=Timeouts(connect=60)))
            generation = endless.submit(ask())
            began = time.monotonic()
            threading.Timer(0.05, generation.cancel).start()
            (cancelled,) = generation
            waited = time.monotonic() - began
            for filler in fillers:
                filler.close()

        assert done.failure is not None
        assert (done.failure.kind, done.failure.code) == ("offline", "timeout_connect")
        assert isinstance(cancelled, Done)
        assert (cancelled.finish_reason, waited < 30) == ("cancelled", True)


def runtime_of(backend: Backend) -> RemoteRuntime:
    from runtime.providers.backends import RemoteName

    return RemoteRuntime(RemoteName(backend, "small"), ask=False)


def test_the_key_is_sent_as_each_dialect_has_it(proxy: FaultProxy) -> None:
    carried = {"anthropic": ("x-api-key", KEY)}
    for dialect in PATHS:
        with remote(proxy.port, dialect) as model:
            assert reply(model, ask()).failure is None, dialect
        keys = [(name, value) for name, value in proxy.heads[-1].items() if KEY in value]
        assert keys == [carried.get(dialect, ("authorization", f"Bearer {KEY}"))]


def test_a_key_that_is_missing_is_told_when_the_model_is_loaded(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with remote(proxy.port) as model:
        monkeypatch.delenv("COGSTEP_TEST_KEY")
        with pytest.raises(ModelOptionsError, match="COGSTEP_TEST_KEY is not set"):
            remote(proxy.port)
        done = reply(model, ask())  # it is read for each request

    assert done.failure is not None
    assert (done.failure.kind, done.failure.code) == ("auth", "no_key")


class TestKeys:
    """A key is in no text that anybody may keep or show."""

    def told(self, model: RemoteRuntime, done: Done) -> str:
        return " ".join(map(repr, (model, model.describe(), done, vars(model), model._name, model._connection)))

    @pytest.mark.parametrize("status", [400, 401, 500])
    def test_of_a_server_that_repeats_it(self, proxy: FaultProxy, status: int) -> None:
        body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}.", "type": KEY, "code": KEY}})
        with remote(proxy.port) as model:
            proxy.next(Fault("status", status=status, body=body))
            done = reply(model, ask())
            told = self.told(model, done)

        assert done.failure is not None
        assert "[COGSTEP_TEST_KEY]" in done.failure.message
        assert KEY not in told

    def test_of_a_server_that_ends_its_reply_with_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Words of the server stand in warnings, and an error may come within the stream."""
        monkeypatch.setenv("COGSTEP_TEST_KEY", "sk-0123456789")
        told = ""
        for end in (
            {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "sk-0123456789"}]},
            {"error": {"message": "no sk-0123456789", "code": "sk-0123456789"}},
        ):
            with answering(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n") as port, remote(port) as model:
                told += repr(reply(model, ask()))

        assert told.count("[COGSTEP_TEST_KEY]") == 3
        assert "sk-0123456789" not in told

    @pytest.mark.parametrize("bad", ["sk-test\n0123456789", "sk-test-0123 456789", "sk-tést-0123456789"])
    def test_of_one_that_no_header_can_carry(
        self, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, bad: str
    ) -> None:
        with remote(proxy.port) as model:
            monkeypatch.setenv("COGSTEP_TEST_KEY", bad)
            done = reply(model, ask())
            told = self.told(model, done)
            with pytest.raises(ModelOptionsError) as caught:
                remote(proxy.port)

        assert done.failure is not None
        assert done.failure.kind == "auth"
        assert not any(part in told + repr(caught.value) for part in ("test-0123", "sk-t"))

    def test_of_an_agent_and_its_recording(self, proxy: FaultProxy, tmp_path: Any, caplog: Any) -> None:
        """Whatever the session met: refusals that repeat it, cuts, and a reply."""
        from interpreters import Agent

        caplog.set_level(0)
        events: list[Any] = []
        body = json.dumps({"error": {"message": f"wrong key {KEY}", "code": "invalid_api_key"}})
        with remote(proxy.port) as model:
            for fault in (Fault("status", status=401, body=body), Fault("cut", after=50)):
                proxy.next(fault)
                with Agent(model, journal=tmp_path / f"{fault.kind}.jsonl", observers=[events.append]) as agent:
                    agent.config  # noqa: B018 - it can be asked for
                    result = (
                        agent.run(
                            "Hello",
                        )
                        if fault.kind == "status"
                        else None
                    )
                    assert result is None or KEY not in repr(result)

        kept = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
        assert "COGSTEP_TEST_KEY" in kept
        assert KEY not in kept + repr(events) + caplog.text


def test_submit_returns_at_once_and_many_go_on_together() -> None:
    """All of them are at the server before one of them is read."""
    here = threading.Barrier(9)

    def answer(_request: Any) -> str:
        here.wait(30)
        return "Yes."

    server = SpeakingServer(FunctionModel(answer))
    with runtime_of(Backend("ours", f"http://127.0.0.1:{server.port}/v1")) as model:
        generations = [model.submit(ask()) for _ in range(8)]
        here.wait(30)
        dones = [list(generation)[-1] for generation in generations]
    server.close()

    assert [done.text for done in dones if isinstance(done, Done)] == ["Yes."] * 8


def test_a_reply_that_nobody_holds_is_given_up(server: SpeakingServer) -> None:
    """Its connection is closed, and so the server stops."""
    waiting = SpeakingServer(ScriptedModel(Reply("Yes.", hold=Hold()) for _ in itertools.count()))
    with runtime_of(Backend("ours", f"http://127.0.0.1:{waiting.port}/v1")) as model:
        unread = model.submit(ask())
        assert waiting.submitted.acquire(timeout=30)
        del unread
        assert waiting.cancelled.acquire(timeout=30)
        half_read = model.submit(ask())
        next(half_read)
        del half_read
        assert waiting.cancelled.acquire(timeout=30)
    waiting.close()


def test_the_queue_limit_holds(server: SpeakingServer) -> None:
    stuck = threading.Event()

    def answer(_request: Any) -> str:
        stuck.wait(30)
        return "Yes."

    waiting = SpeakingServer(FunctionModel(answer))
    with load_model(f"http://127.0.0.1:{waiting.port}/v1|small", queue_limit=1) as model:
        first = model.submit(ask())
        second = reply(model, ask())
        stuck.set()
        done = list(first)[-1]
        third = reply(model, ask())
    waiting.close()

    assert second.failure is not None
    assert (second.failure.kind, second.failure.code) == ("rate_limit", "queue_full")
    assert isinstance(done, Done)
    assert (done.text, third.text) == ("Yes.", "Yes.")


def test_a_remote_model_can_be_read_in_an_event_loop(server: SpeakingServer) -> None:
    import asyncio

    from runtime.async_adapter import start_async

    async def work(model: RemoteRuntime) -> list[Any]:
        return [[one async for one in start_async(model, ask())][-1] for _ in range(2)]

    with remote(server.port) as model:
        assert [done.text for done in asyncio.run(work(model))] == [TEXT] * 2


def test_prices_make_cost(server: SpeakingServer) -> None:
    from runtime.providers.backends import Price

    price = Price(input=3, output=15, cached=1)
    with remote(server.port, prices={"small": price}) as model:
        done = reply(model, ask())

    assert done.usage.cost == price.of(done.usage)
