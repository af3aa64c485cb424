"""Many users of one model, for real: it is loaded once, shared, and freed when the last one has given it back."""

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import (
    Done,
    Isolation,
    ModelNotFoundError,
    ModelServer,
    ReleasedError,
    Runtime,
    RuntimeClosedError,
    ServerClosedError,
    load_model,
)
from runtime.loading import LoadProgress
from runtime.models.specs import SMALL_MODEL, BackendName, resolve
from runtime.server import SharedRuntime


def ask(text: str = "Hello", system: str = "", **options: Any) -> ModelRequest:
    return ModelRequest(system, History((UserMessage("m1", text),)), (), GenerationOptions(**options))


def reply(runtime: Runtime, request: ModelRequest) -> Done:
    *_, done = runtime.submit(request)
    assert isinstance(done, Done)
    return done


class Loads:
    """``load_model``, noting what it loaded."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, path: Path, /, **options: Any) -> Any:
        self.made.append(load_model(path, **options))
        return self.made[-1]


def test_users_share_one_model_until_the_last_one_leaves(backend_name: BackendName) -> None:
    """Weights are there once; who leaves first takes nothing from the others."""
    loads = Loads()
    with ModelServer(load=loads) as server:
        first, second = (server.acquire(backend=backend_name) for _ in range(2))
        assert isinstance(first, Runtime)
        expected = reply(first, ask(max_tokens=8))
        first.close()
        first.close()
        again = reply(second, ask(max_tokens=8))
        (served,) = server.models()

        assert (again.text, again.reasoning) == (expected.text, expected.reasoning)
        assert len(loads.made) == 1
        assert (served.users, served.loaded, served.backend) == (1, 1.0, backend_name)
        with pytest.raises(ReleasedError, match=r"was released here; acquire it again from its server"):
            first.submit(ask())
        assert first.describe() == second.describe()

        second.close()
        assert server.models() == ()
        assert not loads.made[0]._owner._thread.is_alive()

        with server.acquire(backend=backend_name) as third:
            assert reply(third, ask(max_tokens=8)).text == expected.text
        assert len(loads.made) == 2


def test_who_asks_at_the_same_time_waits_for_the_same_load(backend_name: BackendName) -> None:
    """Each with progress of its own."""
    loads, start = Loads(), threading.Barrier(4)
    progress: dict[int, list[LoadProgress]] = {number: [] for number in range(4)}
    users: list[SharedRuntime] = []
    with ModelServer(load=loads) as server:

        def acquire(number: int) -> None:
            start.wait(60)
            users.append(server.acquire(backend=backend_name, on_progress=progress[number].append))

        threads = [threading.Thread(target=acquire, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

        assert [served.users for served in server.models()] == [4]
        assert len(users) == 4
        assert len(loads.made) == 1
        assert any(progress.values())


@pytest.mark.llama
def test_models_are_told_apart_by_file_and_options(tmp_path: Path) -> None:
    """Not by how the file was named."""
    pytest.importorskip("llama_cpp", reason="the extra `llama` is not installed")
    shipped = resolve(None, "llama").path
    link = tmp_path / "link.gguf"
    link.symlink_to(shipped)
    same: list[dict[str, Any]] = [{"spec": shipped}, {"spec": str(link)}, {}, {"threads": None}, {"isolate": False}]
    with ModelServer() as server:
        users = [server.acquire(backend="llama", **options) for options in (*same, {"context_tokens": 64})]

        assert [served.users for served in server.models()] == [5, 1]
        assert [user.describe().context_tokens for user in users] == [2048] * 5 + [64]


def test_a_failed_load_fails_its_own_waiters_and_can_be_tried_again(tmp_path: Path, backend_name: BackendName) -> None:
    """The others don't notice."""
    missing = tmp_path / "later"
    with ModelServer() as server:
        user = server.acquire(backend=backend_name)
        with pytest.raises(ModelNotFoundError):
            server.acquire(missing)
        missing.symlink_to(SMALL_MODEL / "mlx" if backend_name == "mlx" else resolve(None, "llama").path)
        late = server.acquire(missing)

        assert [served.users for served in server.models()] == [2]
        assert reply(late, ask(max_tokens=4)).text == reply(user, ask(max_tokens=4)).text


def test_leaving_ends_ones_own_replies_only(backend_name: BackendName) -> None:
    """As cancelled; those of others go on."""
    long = {"max_tokens": 400, "temperature": 2.0, "seed": 1, "stop": ("never",)}
    with ModelServer() as server:
        leaving, staying = (server.acquire(backend=backend_name) for _ in range(2))
        mine, other = leaving.submit(ask(**long)), staying.submit(ask("Hi", max_tokens=24))
        leaving.close()
        *_, done = mine
        *_, rest = other

        assert isinstance(done, Done)
        assert isinstance(rest, Done)
        assert done.finish_reason == "cancelled"
        assert rest.finish_reason in ("stop", "length")


def test_a_view_that_nobody_holds_is_given_back(backend_name: BackendName) -> None:
    """A reply that is still read keeps it."""
    loads = Loads()
    with ModelServer(load=loads) as server:
        generation = server.acquire(backend=backend_name).submit(ask(max_tokens=4))
        gc.collect()
        *_, done = generation
        assert isinstance(done, Done)
        assert done.finish_reason in ("stop", "length")
        owner = loads.made[0]._owner
        del generation
        gc.collect()
        owner._thread.join(60)

        assert not owner._thread.is_alive()


def test_closing_closes_everything(backend_name: BackendName) -> None:
    """Replies end as cancelled, and nothing can be had any more."""
    loads = Loads()
    server = ModelServer(load=loads)
    user = server.acquire(backend=backend_name)
    running = user.submit(ask(max_tokens=1900, temperature=2.0, seed=1, stop=("never",)))
    server.close()
    server.close()
    *_, done = running

    assert isinstance(done, Done)
    assert done.finish_reason == "cancelled"
    assert not loads.made[0]._owner._thread.is_alive()
    with pytest.raises(ServerClosedError, match="is closed; make a new ModelServer"):
        server.acquire(backend=backend_name)
    with pytest.raises(RuntimeClosedError):
        user.submit(ask())
    user.close()


def test_an_isolated_model_is_shared_like_any_other(backend_name: BackendName) -> None:
    """One process for all who ask for the same."""
    loads = Loads()
    with ModelServer(load=loads) as server:
        users = [server.acquire(backend=backend_name, isolate=isolate) for isolate in (True, Isolation(), True)]
        texts = {reply(user, ask(max_tokens=6)).reasoning for user in users}

        assert len(texts) == 1
        assert [made.starts for made in loads.made] == [1]
    assert loads.made[0].pid is None


def test_agents_with_one_system_prompt_pay_for_it_once(backend_name: BackendName) -> None:
    """Each conversation has its sequence; what all begin with is computed by the first."""
    system = "You help with everything, and you are brief. " * 10
    with ModelServer() as server:
        users = [server.acquire(backend=backend_name) for _ in range(3)]
        done = [reply(user, ask(f"I am number {n}.", system, max_tokens=2)) for n, user in enumerate(users)]
        shared = users[0].count_tokens(ask("", system)) // 2

        assert done[0].usage.reused_tokens == 0
        assert all(reply.usage.reused_tokens > shared for reply in done[1:])
