"""Taking hold of a real engine, in whatever process it runs: what it samples, how much it evaluates at once, and when.

``Steering`` works beside the engine. A test holds a ``Rig``: a runtime and a way to give orders to its steering. In a
child process these come over a socket of their own (``SteeredServer``), so that the connection under test is what users
have. Orders and answers are plain values.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from attrs import evolve

from runtime import Isolation
from runtime.isolated import wire
from runtime.isolated.child import Server, load
from runtime.isolated.handles import IsolatedRuntime
from runtime.loading import _load_isolated, _Watch
from runtime.local.handles import LocalRuntime
from runtime.models.specs import BackendName, resolve

MODULE = "tests.runtime.steering"
PLACE = "COGSTEP_TEST_STEERING"
"""The environment variable that names the socket on which a child's steering is to call."""
LONG = 60


class Steering:
    """Orders to the engine of one owner. Every order is a method; ``restore`` undoes them all."""

    def __init__(
        self, owner: Any, cancelled: threading.Semaphore | None = None, submitted: threading.Semaphore | None = None
    ) -> None:
        self._owner = owner
        self._submitted = submitted
        """Counts the requests that have reached a child."""
        self._cancelled = cancelled
        """Counts the cancels that have reached a child; None where they reach the engine at once."""
        self._undo: list[Callable[[], None]] = []
        self._gate = threading.Event()
        self._reached = threading.Event()
        self._tokens: list[int] = []
        self._calls = 0

    def restore(self) -> None:
        self._gate.set()
        self._owner.call(lambda _engine: [undo() for undo in reversed(self._undo)] and None)
        self._undo.clear()

    def tokenize(self, text: str, special: bool) -> list[int]:
        return self._with_backend(lambda backend: list(backend.tokenize(text, special=special)))

    def piece(self, token: int) -> str:
        return self._with_backend(lambda backend: backend.piece(token).decode())

    def write(self, text: str) -> None:
        """Make the next reply this text, then the end of the turn."""

        def order(backend: Any) -> None:
            end = next(token for token in backend.special.control.values() if backend.is_end(token))
            tokens = iter([*backend.tokenize(text, special=True), end])
            self._put(backend, "sample", lambda *_: next(tokens))

        self._with_backend(order)

    def note(self) -> None:
        """Remember what is sampled from now on."""
        self._tokens.clear()

        def order(backend: Any) -> None:
            choose = backend.sample

            def noted(*arguments: Any) -> int:
                self._tokens.append(int(choose(*arguments)))
                return self._tokens[-1]

            self._put(backend, "sample", noted)

        self._with_backend(order)

    def noted(self) -> list[int]:
        return self._tokens

    def breaks(self, method: str) -> None:
        """Make a method of the backend raise."""

        def broken(*_: Any) -> int:
            raise ArithmeticError("it is broken")

        self._with_backend(lambda backend: self._put(backend, method, broken))

    def limit(self, batch: int) -> None:
        """Evaluate no more than so many tokens at once."""

        def order(engine: Any) -> None:
            limits = engine._schedule.limits
            change = lambda now: setattr(engine, "_schedule", evolve(engine._schedule, limits=now))  # noqa: E731
            change(evolve(limits, batch=batch, chunk=batch))
            self._undo.append(lambda: change(limits))

        self._owner.call(order)

    def hold(self) -> None:
        """Keep the owner's thread busy until ``go_on``, so that what is submitted has not begun."""
        self._forget()
        self._owner.put(lambda _engine: bool(self._gate.wait(LONG)) and None)

    def pause(self, method: str, number: int, token: int | None = None) -> None:
        """Stop in the ``number``-th call of a method, before it does anything; ``token``: what it is to give."""
        self._forget()

        def order(backend: Any) -> None:
            real = getattr(backend, method)

            def pausing(*arguments: Any) -> Any:
                self._calls += 1
                if self._calls == number:
                    self._reached.set()
                    self._gate.wait(LONG)
                return real(*arguments) if token is None else token

            self._put(backend, method, pausing)

        self._with_backend(order)

    def wait(self) -> None:
        """Until it has stopped there."""
        assert self._reached.wait(LONG)

    def arrive(self) -> None:
        """Until a request has come to the process; one that is cancelled before that is never sent."""
        if self._submitted is not None:
            assert self._submitted.acquire(timeout=LONG)

    def go_on(self) -> None:
        """After a cancel, wherever that has to go first."""
        if self._cancelled is not None:
            assert self._cancelled.acquire(timeout=LONG)
        self._gate.set()

    def _forget(self) -> None:
        """What was before: cancels that nobody waited for, too."""
        self._calls = 0
        self._reached.clear()
        self._gate.clear()
        for counted in (self._cancelled, self._submitted):
            while counted is not None and counted.acquire(blocking=False):
                pass

    def calls(self) -> int:
        return self._calls

    def _with_backend(self, function: Callable[[Any], Any]) -> Any:
        return self._owner.call(lambda engine: function(engine._backend))

    def _put(self, backend: Any, name: str, value: Any) -> None:
        """In the place of a method, until it is restored."""
        setattr(backend, name, value)
        self._undo.append(lambda: vars(backend).pop(name, None) and None)


class Rig:
    """A runtime, and orders to its engine."""

    def __init__(
        self, runtime: LocalRuntime | IsolatedRuntime, order: Callable[..., Any], close: Callable[[], object] = bool
    ) -> None:
        self.runtime = runtime
        self.order = order
        self.close = close
        """Give up giving orders."""


def local_rig(runtime: LocalRuntime) -> Rig:
    steering = Steering(runtime._owner)
    return Rig(runtime, lambda name, *arguments: getattr(steering, name)(*arguments))


def isolated_rig(backend: BackendName, context_tokens: int | None = None, module: str = MODULE) -> Rig:
    """The shipped model in a child that takes orders beside what all children do."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/steering")
        listener.listen()
        os.environ[PLACE] = f"{folder}/steering"
        try:
            runtime = _load_isolated(
                lambda: resolve(None, backend),
                Isolation(),
                context_tokens,
                None,
                None,
                _Watch(),
                "small model",
                None,
                module,
            )
        finally:
            del os.environ[PLACE]
        connection, _ = listener.accept()
    stream = connection.makefile("rw", encoding="utf-8")
    connection.close()

    def order(name: str, *arguments: Any) -> Any:
        print(json.dumps([name, *arguments]), file=stream, flush=True)
        answer = json.loads(stream.readline())
        assert "error" not in answer, answer["error"]
        return answer["result"]

    return Rig(runtime, order, stream.close)


class SteeredServer(Server):
    """A child that counts cancels, and takes orders on a socket of its own."""

    cancelled = threading.Semaphore(0)
    submitted = threading.Semaphore(0)

    def handle(self, message: wire.Message) -> None:
        super().handle(message)
        if isinstance(message, wire.Cancel):
            self.cancelled.release()
        if isinstance(message, wire.Submit):
            self.submitted.release()

    def steering(self) -> Steering:
        return Steering(self.owner, self.cancelled, self.submitted)

    def take_orders(self, stream: Any) -> None:
        steering = self.steering()
        for line in stream:
            name, *arguments = json.loads(line)
            try:
                answer = {"result": getattr(steering, name)(*arguments)}
            except BaseException as error:  # the test's
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=stream, flush=True)


def main(kind: type[SteeredServer] = SteeredServer) -> None:
    """As ``runtime.isolated.child.main``."""
    steering = socket.socket(socket.AF_UNIX)
    steering.connect(os.environ[PLACE])
    stream = steering.makefile("rw", encoding="utf-8")

    def load_and_listen(message: wire.Load, on_progress: Callable[[float], bool]) -> Any:
        engine = load(message, on_progress)
        threading.Thread(target=server.take_orders, args=(stream,), daemon=True).start()
        return engine

    server = kind(socket.socket(fileno=int(sys.argv[1])), load_and_listen)
    server.run()
