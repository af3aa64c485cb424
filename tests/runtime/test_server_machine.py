"""Users who come, give up, leave twice and meet failures in any order: a model stands exactly while it has users.

A rule-based state machine drives a real ``ModelServer``, its threads included; only what a load does is written here.
Nothing waits for time: each rule waits for what the server has to do because of it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from attrs import define, field
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from cognition.parsing import FormatSpec
from runtime.errors import LoadCancelledError, ModelFileError, ReleasedError, ServerClosedError
from runtime.loading import LoadProgress
from runtime.models.specs import Source
from runtime.protocol.model import ModelInfo
from runtime.server import ModelServer, SharedRuntime

LONG = 60
"""Seconds after which a thread that should have gone on is stuck."""

REQUEST = ModelRequest("", History((UserMessage("m", "Hi"),)), (), GenerationOptions())


class FakeRuntime:
    """Knows whether it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = 0

    def describe(self) -> ModelInfo:
        return ModelInfo(self.name, "fake", self.name, 100, FormatSpec("plain"))

    def count_tokens(self, _request: ModelRequest) -> int:
        assert not self.closed
        return 1

    def submit(self, _request: ModelRequest) -> Any:
        raise AssertionError("not asked for here")

    def close(self) -> None:
        self.closed += 1


@define(eq=False)
class FakeLoad:
    """A load that does what it is told, on the thread that the server gives it."""

    key: tuple[str, int | None]
    on_progress: Callable[[LoadProgress], object]
    orders: SimpleQueue[Any] = field(factory=SimpleQueue)
    answers: SimpleQueue[object] = field(factory=SimpleQueue)
    runtime: FakeRuntime = field(init=False)

    def run(self) -> FakeRuntime:
        while True:
            order = self.orders.get(timeout=LONG)
            if isinstance(order, float):
                self.answers.put(self.on_progress(LoadProgress("weights", order)))
            elif isinstance(order, Exception):
                raise order
            else:
                return self.runtime

    def report(self, fraction: float) -> object:
        """Say how far it is, and hear whether to go on."""
        self.orders.put(fraction)
        return self.answers.get(timeout=LONG)


@define(eq=False)
class User:
    """Somebody who asks for a model on a thread of its own."""

    key: tuple[str, int | None]
    patient: bool = True
    heard: SimpleQueue[LoadProgress] = field(factory=SimpleQueue)
    outcome: Future[SharedRuntime] = field(factory=Future)

    def on_progress(self, progress: LoadProgress) -> bool:
        self.heard.put(progress)
        return self.patient

    def ask(self, server: ModelServer) -> None:
        try:
            shared = server.acquire(self.key[0], threads=self.key[1], on_progress=self.on_progress)
        except BaseException as error:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(shared)

    def begin(self, server: ModelServer) -> None:
        threading.Thread(target=self.ask, args=(server,), daemon=True).start()

    def error(self) -> BaseException | None:
        return self.outcome.exception(LONG)

    def shared(self) -> SharedRuntime:
        return self.outcome.result(LONG)


KEYS = st.sampled_from([("a.gguf", None), ("a.gguf", 2), ("b.gguf", None)])


class Server(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.begun: SimpleQueue[FakeLoad] = SimpleQueue()
        self.server = ModelServer(load=self.load, find=lambda spec, *_: Source("llama", Path(str(spec))))
        self.loading: dict[tuple[str, int | None], FakeLoad] = {}
        self.waiting: dict[tuple[str, int | None], list[User]] = {}
        self.standing: dict[tuple[str, int | None], FakeRuntime] = {}
        self.users: dict[tuple[str, int | None], list[User]] = {}
        self.given_up: list[FakeLoad] = []
        self.gone: list[User] = []
        self.made: list[FakeRuntime] = []
        self.late: list[FakeRuntime] = []
        """Those that nobody wanted any more: they are freed on their load's thread, whenever that comes to it."""
        self.closed = False

    def load(self, path: Path, /, **options: Any) -> FakeRuntime:
        load = FakeLoad((path.name, options.get("threads")), options["on_progress"])
        load.runtime = FakeRuntime(path.name)
        self.begun.put(load)
        return load.run()

    # ---------------------------------------------------------------------------------------------------- what users do

    @rule(key=KEYS)
    def acquire(self, key: tuple[str, int | None]) -> None:
        user = User(key)
        user.begin(self.server)
        if self.closed:
            assert isinstance(user.error(), ServerClosedError)
        elif key in self.standing:
            user.shared()
            self.users[key].append(user)
        elif key in self.loading:
            # It has joined once it hears how far the others are.
            assert user.heard.get(timeout=LONG).stage == "weights"
            self.waiting[key].append(user)
        else:
            load = self.begun.get(timeout=LONG)
            assert load.key == key
            assert load.report(0.0) is True
            assert user.heard.get(timeout=LONG).fraction == 0.0
            self.loading[key], self.waiting[key] = load, [user]

    @precondition(lambda self: self.loading)
    @rule(data=st.data(), fraction=st.floats(0, 1))
    def progress(self, data: st.DataObject, fraction: float) -> None:
        """All who wait hear of it, each by a function of their own."""
        key = data.draw(st.sampled_from(sorted(self.loading, key=str)))
        assert self.loading[key].report(fraction) is True
        for user in self.waiting[key]:
            assert user.heard.get(timeout=LONG).fraction == fraction

    @precondition(lambda self: self.loading)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """One who waits cancels: the others go on; where there is none, the load is told to end."""
        key = data.draw(st.sampled_from(sorted(self.loading, key=str)))
        user = data.draw(st.sampled_from(self.waiting[key]))
        user.patient = False
        assert self.loading[key].report(0.5) is True
        for one in self.waiting[key]:
            one.heard.get(timeout=LONG)
        assert isinstance(user.error(), LoadCancelledError)
        self.waiting[key].remove(user)
        if not self.waiting[key]:
            del self.waiting[key]
            load = self.loading.pop(key)
            assert load.report(0.6) is False
            self.given_up.append(load)

    @precondition(lambda self: self.standing)
    @rule(data=st.data(), again=st.booleans())
    def release(self, data: st.DataObject, again: bool) -> None:
        """The last one frees the model; who leaves twice takes nobody's place."""
        key = data.draw(st.sampled_from(sorted(self.standing, key=str)))
        user = data.draw(st.sampled_from(self.users[key]))
        user.shared().close()
        if again:
            user.shared().close()
        self.users[key].remove(user)
        self.gone.append(user)
        if not self.users[key]:
            del self.users[key]
            assert self.standing.pop(key).closed == 1

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def use_after_release(self, data: st.DataObject) -> None:
        shared = data.draw(st.sampled_from(self.gone)).shared()
        with pytest.raises(ReleasedError):
            shared.count_tokens(REQUEST)
        with pytest.raises(ReleasedError):
            shared.count_texts(["Hello"])
        with pytest.raises(ReleasedError):
            shared.submit(REQUEST)
        shared.close()
        assert shared.describe().backend == "fake"

    # ---------------------------------------------------------------------------------------------------- what loads do

    @precondition(lambda self: self.loading)
    @rule(data=st.data())
    def stand(self, data: st.DataObject) -> None:
        """All who waited have it."""
        key = data.draw(st.sampled_from(sorted(self.loading, key=str)))
        load = self.loading.pop(key)
        load.orders.put(None)
        self.users[key] = self.waiting.pop(key)
        for user in self.users[key]:
            user.shared()
        self.standing[key] = load.runtime
        self.made.append(load.runtime)

    @precondition(lambda self: self.loading)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """All who waited for this one hear why, and nobody else."""
        key = data.draw(st.sampled_from(sorted(self.loading, key=str)))
        error = ModelFileError(f"{key} is broken", spec=key[0])
        self.loading.pop(key).orders.put(error)
        for user in self.waiting.pop(key):
            assert user.error() is error

    @precondition(lambda self: self.given_up)
    @rule(data=st.data(), loaded=st.booleans())
    def end_what_was_given_up(self, data: st.DataObject, loaded: bool) -> None:
        """Native code may have come to its end before it saw that nobody wants it; then it is freed."""
        load = data.draw(st.sampled_from(self.given_up))
        self.given_up.remove(load)
        load.orders.put(None if loaded else LoadCancelledError("nobody wants it"))
        if loaded:
            self.late.append(load.runtime)

    @precondition(lambda self: not self.closed)
    @rule(again=st.booleans())
    def close(self, again: bool) -> None:
        """Everything ends, for everybody."""
        self.closed = True
        for load in self.given_up:
            load.orders.put(LoadCancelledError("nobody wants it"))
        self.given_up.clear()
        # What is loading sees at its next progress that it is not wanted; here it ends so.
        for load in self.loading.values():
            load.orders.put(LoadCancelledError("the server is closed"))
        self.server.close()
        if again:
            self.server.close()
        for users in self.waiting.values():
            for user in users:
                assert isinstance(user.error(), ServerClosedError | LoadCancelledError)
        for users in self.users.values():
            self.gone += users
            for user in users:
                user.shared().close()
        for runtime in self.standing.values():
            assert runtime.closed == 1
        self.loading, self.waiting, self.standing, self.users = {}, {}, {}, {}

    # ------------------------------------------------------------------------------------------------------- what holds

    @invariant()
    def a_model_stands_exactly_while_it_has_users(self) -> None:
        standing = list(self.standing.values())

        assert [runtime for runtime in self.made if not runtime.closed] == standing
        for users in self.users.values():
            assert all(user.shared().count_tokens(REQUEST) == 1 for user in users)
            assert all(user.shared().count_texts(["Hello"]) == () for user in users)

    @invariant()
    def the_server_says_what_it_holds(self) -> None:
        counts = {key: len(users) for key, users in (self.waiting | self.users).items()}

        assert sorted(model.users for model in self.server.models()) == sorted(counts.values())
        assert all(model.loaded == 1.0 for model in self.server.models() if model.path in self.standing)

    @invariant()
    def nothing_is_loaded_twice(self) -> None:
        assert self.begun.empty()

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        if not self.closed:
            self.close(False)
        assert all(runtime.closed == 1 for runtime in self.made + self.late)


TestServer = Server.TestCase
TestServer.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
