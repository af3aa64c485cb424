"""``ModelServer``: many agents, each model loaded once, and freed when the last of them has given it back.

acquire ──▶ the same file with the same options? ── loaded ─────────────▶ one user more
                │                                  └─ being loaded ──▶ wait with the others
                └─ neither ──▶ a load of its own, beside all others
release ──▶ one user less ── the last one ──▶ the model is freed
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Unpack

from attrs import define, field, frozen

from cognition import ModelRequest
from runtime.errors import LoadCancelledError, ModelSpecError, ReleasedError, ServerClosedError
from runtime.isolated.settings import Isolation
from runtime.loading import LoadOptions, LoadProgress, OnProgress, load_model
from runtime.models.specs import BackendName, Source, resolve
from runtime.programs.loading import names_program
from runtime.protocol import Done, Generation, ModelInfo, Runtime, TextCounter
from runtime.providers.loading import names_remote
from runtime.scheduling.owners import new_owner, owned_by, owner_or

if TYPE_CHECKING:
    from cognition.parsing import Output


class Find(Protocol):
    """From what a user names a model by to its files; see ``runtime.models.specs.resolve``."""

    def __call__(
        self, spec: str | Path | None, backend: BackendName | None, on_download: Callable[[float], bool], /
    ) -> Source: ...


class Load(Protocol):
    """Loads a model on the thread that calls it, and tells ``on_progress`` (in ``options``) how far it is."""

    def __call__(self, path: Path, /, *, isolate: bool | Isolation, **options: Unpack[LoadOptions]) -> Runtime: ...


@frozen
class ServedModel:
    """One model of a server, as it is now."""

    path: str
    backend: BackendName
    users: int
    """Those who have it, and those who wait for it."""
    loaded: float
    """How far its load is, 0 to 1; 1 when it stands."""


@define(eq=False)
class _Model:
    """One model, from the first who wants it to the last who gives it back. Changed under the server's lock only."""

    key: Hashable
    source: Source
    claims: set[_Claim] = field(factory=set)
    standing: Future[Runtime] = field(factory=Future)
    """The model, or why there is none."""
    ended: threading.Event = field(factory=threading.Event)
    """Nothing of it is left."""
    unwanted: bool = False
    """Nobody wants it any more: it is being freed, or given up while it loads."""
    progress: LoadProgress | None = None


@define(eq=False)
class _Claim:
    """One user's part in a model."""

    model: _Model
    events: SimpleQueue[LoadProgress | None] = field(factory=SimpleQueue)


class ModelServer:
    """Holds models for any number of users, in any threads. Usable in a ``with`` statement, whose end closes it."""

    def __init__(self, *, load: Load = load_model, find: Find = resolve) -> None:
        """Make one that holds nothing yet.

        Args:
            load: how a model is loaded.
            find: how a model is found.
        """
        self._load = load
        self._find = find
        self._lock = threading.Lock()
        self._models: dict[Hashable, _Model] = {}
        """Those that can be had."""
        self._all: weakref.WeakSet[_Model] = weakref.WeakSet()
        """Those that are being freed or given up too."""
        self._closed = False

    def acquire(
        self, spec: str | Path | None = None, *, isolate: bool | Isolation = False, **options: Unpack[LoadOptions]
    ) -> SharedRuntime:
        """Become a user of a model, and load it if nobody has done so with the same options.

        Takes what ``load_model`` takes, and waits until the model stands. ``on_progress`` is this user's own: when it
        returns False only this user gives up, and the load goes on for the others who wait for it. So it is with an
        interruption such as Ctrl-C.

        Raises:
            ModelLoadError: one of its kinds; all who wait for this load get it, and who asks again starts another one.
            ModelSpecError: it names no local model. A runtime of another one holds nothing that is to be shared: give
                one of ``load_model`` to as many agents as you like.
            ServerClosedError: after ``close()``, or it came while this waited.
        """
        where = "another agent's command line" if names_program(spec) else ""
        if not where and names_remote(spec, options.get("backends", ())) is not None:
            where = "behind a server"
        if where:
            raise ModelSpecError(
                f"{spec} is {where}, and one runtime of it is shared as it is; use load_model()", spec=str(spec)
            )
        on_progress = options.pop("on_progress", None)

        def downloading(fraction: float) -> bool:
            return on_progress is None or on_progress(LoadProgress("download", fraction)) is not False

        source = self._find(spec, options.get("backend"), downloading)
        claim = self._claim(source, Isolation() if isolate is True else isolate, options)
        try:
            return SharedRuntime(self, claim, self._wait(claim, on_progress))
        except BaseException:
            self._leave(claim)
            raise

    def models(self) -> tuple[ServedModel, ...]:
        """What it holds, in the order in which the models were first asked for."""
        with self._lock:
            return tuple(
                ServedModel(
                    str(model.source.path),
                    model.source.backend,
                    len(model.claims),
                    1.0 if model.standing.done() else model.progress.fraction if model.progress else 0.0,
                )
                for model in self._models.values()
            )

    def close(self) -> None:
        """Free all models, whoever uses them, give up all loads, and wait for it. A second call does nothing more."""
        with self._lock:
            self._closed = True
            models = tuple(self._models.values())
            self._models.clear()
            standing = [model for model in models if self._give_up(model)]
            for model in models:
                if not model.standing.done():
                    model.standing.set_exception(ServerClosedError(_name(model)))
            left = tuple(self._all)
        for model in standing:
            self._free(model)
        for model in left:
            model.ended.wait()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------------------- one user

    def _claim(self, source: Source, isolate: bool | Isolation, options: LoadOptions) -> _Claim:
        chosen = {name: value for name, value in options.items() if value is not None and name != "backend"}
        key = (source.backend, os.path.realpath(source.path), isolate, tuple(sorted(chosen.items())))
        while True:
            with self._lock:
                if self._closed:
                    raise ServerClosedError(source.path.name)
                model = self._models.get(key)
                if model is None or not model.unwanted:
                    return self._join(model) if model is not None else self._begin(key, source, isolate, options)
            model.ended.wait()  # it is being freed: a second one beside it may not fit into memory

    def _join(self, model: _Model) -> _Claim:
        """Under the lock."""
        claim = _Claim(model)
        model.claims.add(claim)
        if model.progress is not None:
            claim.events.put(model.progress)
        return claim

    def _begin(self, key: Hashable, source: Source, isolate: bool | Isolation, options: LoadOptions) -> _Claim:
        """Under the lock, which the load needs for the first time when it has something to tell."""
        model = _Model(key, source)
        thread = threading.Thread(
            target=self._run_load,
            args=(model, isolate, options),
            name=f"cogstep load {source.path.name}",
            daemon=True,
        )
        thread.start()
        self._models[key] = model
        self._all.add(model)
        return self._join(model)

    def _wait(self, claim: _Claim, on_progress: OnProgress | None) -> Runtime:
        """Until the model stands; raises what loading raised, or that this user gave up."""
        standing = claim.model.standing
        standing.add_done_callback(lambda _standing: claim.events.put(None))
        while (event := claim.events.get()) is not None:
            if on_progress is not None and on_progress(event) is False:
                raise LoadCancelledError(f"loading {_name(claim.model)} was cancelled", spec=_name(claim.model))
        return standing.result()

    def _leave(self, claim: _Claim) -> None:
        """One user less; of the last one, the model is freed. Does nothing for who has left already."""
        model = claim.model
        with self._lock:
            if claim not in model.claims:
                return
            model.claims.discard(claim)
            if model.claims or not self._give_up(model):
                return
        self._free(model)

    # ----------------------------------------------------------------------------------------------------- one model

    def _give_up(self, model: _Model) -> bool:
        """Under the lock: nobody wants it any more. Whether it stands, and is to be freed now by the caller.

        One that is still being loaded is freed by its load. Who wants it meanwhile gets a new one.
        """
        first = not model.unwanted
        model.unwanted = True
        model.claims.clear()
        stands = model.standing.done() and model.standing.exception() is None
        if not stands and self._models.get(model.key) is model:
            del self._models[model.key]
        return first and stands

    def _free(self, model: _Model) -> None:
        try:
            model.standing.result().close()
        finally:
            self._end(model)

    def _end(self, model: _Model) -> None:
        with self._lock:
            if self._models.get(model.key) is model:
                del self._models[model.key]
            self._all.discard(model)
        model.ended.set()

    def _run_load(self, model: _Model, isolate: bool | Isolation, options: LoadOptions) -> None:
        """On a thread of the load's own."""

        def tell(progress: LoadProgress) -> bool:
            with self._lock:
                model.progress = progress
                for claim in model.claims:
                    claim.events.put(progress)
                return not model.unwanted

        chosen: LoadOptions = {**options, "backend": model.source.backend, "on_progress": tell}
        try:
            runtime = self._load(model.source.path, isolate=isolate, **chosen)
        except BaseException as error:  # whatever it is, it is theirs who wait
            self._end(model)
            with self._lock:
                if not model.standing.done():
                    model.standing.set_exception(error)
            return
        with self._lock:
            wanted = not model.unwanted
            if wanted:
                model.standing.set_result(runtime)
        if not wanted:
            try:
                runtime.close()
            finally:
                self._end(model)


class SharedRuntime:
    """One user's view of a model that others may use too; see ``runtime.Runtime``. Made by ``ModelServer.acquire``.

    What this user submits shares the model's batches and its cache with all others', and each conversation finds its
    own sequence again by how it begins. ``close`` gives the model back: this user's replies end as cancelled, and
    those of others go on. So does the end of a ``with`` statement, and a view that nobody holds any more.
    """

    def __init__(self, server: ModelServer, claim: _Claim, runtime: Runtime) -> None:
        """Take over a claim whose model stands."""
        self._runtime = runtime
        self._agent = new_owner()
        self._info = runtime.describe()
        self._door = threading.Lock()
        self._released = False
        self._replies: weakref.WeakSet[SharedGeneration] = weakref.WeakSet()
        # A garbage collection may come in the middle of anything, where nothing may wait. At the program's end the
        # model closes by itself.
        self._leave: Callable[[], None] = lambda: server._leave(claim)
        forgotten = weakref.finalize(self, _on_a_thread, self._leave)
        forgotten.atexit = False

    @property
    def released(self) -> bool:
        """Whether it was given back."""
        return self._released

    def submit(self, request: ModelRequest) -> SharedGeneration:
        with self._door, owned_by(owner_or(self._agent)):
            generation = SharedGeneration(self, self._open().submit(request))
            self._replies.add(generation)
            return generation

    def count_tokens(self, request: ModelRequest) -> int:
        return self._open().count_tokens(request)

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        runtime = self._open()
        return runtime.count_texts(texts) if isinstance(runtime, TextCounter) else ()

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        """Give the model back; the last user's call waits until it is freed. A second call does nothing."""
        with self._door:
            self._released = True
            replies = tuple(self._replies)
        for reply in replies:
            reply.cancel()
        self._leave()

    def __enter__(self) -> SharedRuntime:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> Runtime:
        if self._released:
            raise ReleasedError(self._info.name)
        return self._runtime


class SharedGeneration:
    """A reply on its way; see ``runtime.Generation``. It holds its user's view: the model stays while it is read."""

    def __init__(self, user: SharedRuntime, generation: Generation) -> None:
        self._user = user
        self._generation = generation

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        return next(self._generation)

    def cancel(self) -> None:
        self._generation.cancel()


def _name(model: _Model) -> str:
    return model.source.path.name


def _on_a_thread(leave: Callable[[], None]) -> None:
    threading.Thread(target=leave, name="cogstep release", daemon=True).start()
