"""How remote models are used: over TLS and proxies, from many threads at once, interrupted, and kept out of tests."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from cognition import ConfigError
from cognition.steps.retry import classify
from interpreters.testing.fakes import Hold, Reply, ScriptedModel
from runtime import Done, ModelServer, ModelSpecError, load_model
from runtime.local.real_model_guard import BLOCKED, VARIABLE, RealModelBlockedError
from runtime.providers.backends import Backend, remote_name
from runtime.providers.remote import RemoteRuntime
from tests.runtime.asking import ask, reply
from tests.runtime.providers.fault_proxy import FaultProxy
from tests.runtime.providers.speaking import SpeakingServer

Serve = Callable[..., SpeakingServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers that say what they are told to, which are gone at the end."""
    made: list[SpeakingServer] = []

    def start(replies: Any, **options: Any) -> SpeakingServer:
        made.append(SpeakingServer(ScriptedModel(iter(replies)), **options))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of ``localhost`` that nobody else trusts, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    more = ["-addext", "subjectAltName=DNS:localhost", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run([*command, *more], check=True, capture_output=True)
    return paths


class TestTls:
    def secure(self, server: SpeakingServer, certificate: tuple[Path, Path]) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        return f"https://localhost:{server.port}/v1|small"

    def test_a_certificate_that_nobody_trusts_ends_it(self, serve: Serve, certificate: tuple[Path, Path]) -> None:
        """What stands there may be anybody: nothing is sent."""
        server = serve(["Yes."])
        with load_model(self.secure(server, certificate)) as model:
            done = reply(model, ask())

        assert done.failure is not None
        assert (classify(done.failure), done.failure.code) == ("fatal", "certificate")
        assert server.bodies == []

    def test_one_that_is_trusted_carries_replies_and_cancels(
        self, serve: Serve, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        server = serve(["Yes.", Reply("It is", hold=Hold()), "Yes again."])
        with load_model(self.secure(server, certificate)) as model:
            first = reply(model, ask())
            generation = model.submit(ask())
            shown = next(generation)
            reader: list[Any] = []
            thread = threading.Thread(target=lambda: reader.extend(generation))
            thread.start()
            generation.cancel()
            thread.join(30)
            last = reply(model, ask())

        assert (first.text, last.text) == ("Yes.", "Yes again.")
        assert [getattr(shown, "text", ""), reader[-1].text] == ["It is", "It is"]
        assert reader[-1].finish_reason == "cancelled"


def test_a_proxy_of_the_environment_is_gone_through(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's name is the proxy's to resolve."""
    server = serve(itertools.repeat("Yes."))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FaultProxy(server.port) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{proxy.port}")
        with load_model("http://models.invalid/v1|small") as model:
            done = reply(model, ask())
            told = repr((model, vars(model), done))

    assert (done.text, done.failure) == ("Yes.", None)
    assert proxy.heads[-1]["host"] == "models.invalid"
    assert proxy.heads[-1]["proxy-authorization"].startswith("Basic ")
    assert "secret" not in told


def test_ten_threads_that_cancel_at_random_get_what_is_theirs(serve: Serve) -> None:
    """Every reply ends with one ``Done``: its own, whole, or cancelled. Connections are shared by all of them."""
    from interpreters.testing.fakes import FunctionModel

    server = SpeakingServer(FunctionModel(lambda request: f"You said {request.messages[-1].text}."))
    wrong: list[Any] = []

    def work(number: int, model: RemoteRuntime) -> None:
        from cognition import UserMessage

        chance = random.Random(number)
        for turn in range(30):
            generation = model.submit(ask(UserMessage("m1", f"{number}.{turn}")))
            if chance.random() < 0.5:
                threading.Timer(chance.random() / 200, generation.cancel).start()
            *_, done = generation
            whole = (f"You said {number}.{turn}.", "stop", None)
            if not isinstance(done, Done) or (
                (done.text, done.finish_reason, done.failure) != whole and done.finish_reason != "cancelled"
            ):
                wrong.append(done)

    with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
        threads = [threading.Thread(target=work, args=(number, model)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert isinstance(model, RemoteRuntime)
        after = reply(model, ask())
        left = [str(one) for one in model._connection._pool.connections if not one.is_idle()]
    server.close()

    assert wrong == []
    assert after.finish_reason == "stop"
    assert left == []


def test_an_interrupt_in_the_middle_of_a_read(serve: Serve) -> None:
    """It comes out of the loop, as of any; whoever reads on afterwards gets the end, and the next reply is as ever."""
    server = serve([Reply("It is", hold=Hold()), "Yes."])
    with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
        generation = model.submit(ask())
        next(generation)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(generation)
        generation.cancel()
        (done,) = generation
        after = reply(model, ask())

    assert isinstance(done, Done)
    assert (done.text, done.finish_reason, done.failure) == ("It is", "cancelled", None)
    assert after.text == "Yes."


class SilentServer(threading.Thread):
    """Answers the first request of its one connection, and no other; keeps what each read of the socket gave."""

    BODY = b'data: {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.read: list[bytes] = []
        self.gone = threading.Event()
        self.start()

    def run(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            whole = b""
            while not whole.endswith(b"}"):
                whole += connection.recv(1 << 16)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
            connection.sendall(head % len(self.BODY) + self.BODY)
            while data := connection.recv(1 << 16):
                self.read.append(data)
        self.gone.set()

    def __enter__(self) -> SilentServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()


def silent(server: SilentServer) -> RemoteRuntime:
    """A model behind it, which it is asked nothing of."""
    name = remote_name(f"http://127.0.0.1:{server.port}/v1|small", {})
    assert name is not None
    runtime = RemoteRuntime(name, ask=False)
    assert reply(runtime, ask()).text == "Yes."
    return runtime


def test_a_request_over_a_kept_connection_goes_out_whole() -> None:
    """Head and body in one packet: two would cost a call more to the system, and the server a wait."""
    with SilentServer() as server, silent(server) as model:
        generation = model.submit(ask())
        while not server.read:
            time.sleep(0.001)
        generation.cancel()
        (done,) = generation

    (sent,) = server.read
    assert isinstance(done, Done)
    assert done.finish_reason == "cancelled"
    assert sent.startswith(b"POST ")
    assert sent.endswith(b"}")


def test_an_interrupt_in_the_middle_of_a_request() -> None:
    """It comes out at once, whichever thread sends the request; cancelled then, the connection is left."""
    with SilentServer() as server, silent(server) as model:
        generation = model.submit(ask())
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(generation)
        generation.cancel()
        (done,) = generation
        assert server.gone.wait(10)

    assert isinstance(done, Done)
    assert (done.finish_reason, done.failure) == ("cancelled", None)


def test_whoever_reads_never_connects(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept connection may have been closed meanwhile; a thread that connects can't be woken by ``cancel``."""
    connecting = list[int]()
    real = httpcore2.SyncBackend.connect_tcp

    def connect(self: Any, *arguments: Any) -> Any:
        connecting.append(threading.get_ident())
        return real(self, *arguments)

    server = serve(["Yes."] * 6)
    with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
        assert isinstance(model, RemoteRuntime)
        monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
        for _ in range(6):
            assert reply(model, ask()).text == "Yes."
            for line in model._connection._pool.connections:
                inner: Any = line
                inner._connection._expire_at = 0.0  # as after a long while

    assert len(connecting) >= 5
    assert threading.get_ident() not in connecting


def test_a_request_that_nobody_waits_for_is_sent() -> None:
    with SilentServer() as server, silent(server) as model:
        generations = [model.submit(ask())]
        while not server.read:
            time.sleep(0.001)
        del generations
        assert server.gone.wait(10)


def test_a_handler_that_cancels_ends_the_read(serve: Serve) -> None:
    """As interpreters do: the handler of a signal cancels what its own thread waits for."""
    server = serve([Reply("It is", hold=Hold())])
    with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
        generation = model.submit(ask())
        next(generation)
        before = signal.signal(signal.SIGUSR1, lambda *_: generation.cancel())
        try:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            (done,) = generation
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert isinstance(done, Done)
    assert (done.text, done.finish_reason) == ("It is", "cancelled")


def test_tests_keep_remote_models_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all real models: neither loaded nor asked."""
    server = serve(["Yes."])
    with load_model(f"http://127.0.0.1:{server.port}/v1|small") as model:
        monkeypatch.setenv(VARIABLE, BLOCKED)
        with pytest.raises(RealModelBlockedError):
            model.submit(ask())
        with pytest.raises(RealModelBlockedError):
            load_model(f"http://127.0.0.1:{server.port}/v1|small")

    assert server.bodies == []


def test_what_a_remote_model_has_no_use_for_is_refused_in_words() -> None:
    with pytest.raises(ModelSpecError, match="context_tokens must be at least 2"):
        load_model("http://127.0.0.1:1/v1|m", context_tokens=1)
    with pytest.raises(Exception, match="decides of threads, template itself; leave that out"):
        load_model("http://127.0.0.1:1/v1|m", threads=2, template="{{ messages }}")
    with pytest.raises(ConfigError, match="a Backend"):
        load_model("http://127.0.0.1:1/v1|m", backends=["office"])  # type: ignore[list-item]  # it is none


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ("http://127.0.0.1:1/v1|m", "behind a server"),
        ("claude", "another agent's command line"),
        ("codex:gpt-5", "another agent's command line"),
    ],
)
def test_a_server_of_models_says_what_it_does_not_hold(spec: str, where: str) -> None:
    with ModelServer() as server, pytest.raises(ModelSpecError, match=f"is {where}, .* shared as it is"):
        server.acquire(spec)


def test_a_file_of_that_name_is_a_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mistral").mkdir()
    (tmp_path / "mistral" / "small").mkdir()

    with pytest.raises(Exception, match=r"config\.json"):
        load_model("mistral/small")


def test_the_context_that_is_asked_for_holds(serve: Serve) -> None:
    """Ollama is told it; of others it is what describe() says, with a warning where the server has less."""
    server = serve(["Yes."])
    ollama = Backend("ours", f"http://127.0.0.1:{server.port}/api", "ollama")
    with load_model("ours/small", backends=[ollama], context_tokens=3000) as model:
        reply(model, ask())
        assert model.describe().context_tokens == 3000
    with load_model(f"http://127.0.0.1:{server.port}/v1|small", context_tokens=10_000) as model:
        info = model.describe()

    assert server.bodies[-1]["options"]["num_ctx"] == 3000
    assert info.context_tokens == 10_000
    assert any("has 4096 tokens, and 10000 were asked for" in one for one in info.warnings)
