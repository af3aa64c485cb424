"""``ModelServer``: many agents share models. Each model is loaded once and freed after its last release.

    acquire ──▶ same file, same options? ── loaded ─────────────▶ one more user
                    │                          └─ loading ──▶ wait with the others
                    └─ no ──▶ a new load, concurrent with others
    release ──▶ one user fewer ── the last ──▶ the model is freed

Each load runs on its own thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, Unpack

from attrs import define, field, frozen

from cognition import ModelRequest
from runtime.closeable import Closeable
from runtime.errors import LoadCancelledError, ModelSpecError, ReleasedError, ServerClosedError
from runtime.isolated.settings import Isolation
from runtime.loading import LoadOptions, LoadProgress, OnProgress, load_model
from runtime.models.specs import BackendName, Source, resolve
from runtime.programs.loading import names_program
from runtime.protocol.model import Done, Generation, ModelInfo, Runtime, TextCounter
from runtime.providers.loading import names_remote
from runtime.scheduling.owners import new_owner, owned_by, owner_or

if TYPE_CHECKING:
    from cognition.parsing import Output


FindModel = Callable[[str | Path | None, BackendName | None, Callable[[float], bool]], Source]
"""Finds the files of a model by its name; see ``runtime.models.specs.resolve``."""


class LoadFunction(Protocol):
    """Loads a model on the calling thread and reports progress to ``on_progress`` (in ``options``)."""

    def __call__(self, path: Path, /, *, isolate: bool | Isolation, **options: Unpack[LoadOptions]) -> Runtime: ...


@frozen
class ServedModel:
    """A snapshot of one model of a server."""

    path: str
    backend: BackendName
    users: int
    """The number of current and waiting users."""
    loaded: float
    """Load progress, 0 to 1; 1 when loaded."""


@define(eq=False)
class _Model:
    """One model, from its first user to its last release. Changed only under the server's lock."""

    key: Hashable
    source: Source
    claims: set[_Claim] = field(factory=set)
    standing: Future[Runtime] = field(factory=Future)
    """The loaded model, or its error."""
    ended: threading.Event = field(factory=threading.Event)
    """Set when the model is completely freed."""
    unwanted: bool = False
    """Whether it has no users left: it is being freed, or its load is being cancelled."""
    progress: LoadProgress | None = None


@define(eq=False)
class _Claim:
    """One user's claim on a model."""

    model: _Model
    events: SimpleQueue[LoadProgress | None] = field(factory=SimpleQueue)


class ModelServer(Closeable):
    """Shares models among any number of users, in any threads. Usable in a ``with`` statement, which closes it."""

    def __init__(self, *, load: LoadFunction = load_model, find: FindModel = resolve) -> None:
        """Create an empty server.

        Args:
            load: loads a model.
            find: finds the files of a model.
        """
        self._load = load
        self._find = find
        self._lock = threading.Lock()
        self._models: dict[Hashable, _Model] = {}
        """Available and loading models."""
        self._all: weakref.WeakSet[_Model] = weakref.WeakSet()
        """Also includes models that are being freed or cancelled."""
        self._closed = False

    def acquire(
        self, spec: str | Path | None = None, *, isolate: bool | Isolation = False, **options: Unpack[LoadOptions]
    ) -> SharedRuntime:
        """Acquire a model; load it unless it is already loaded or loading with the same options.

        Accepts the options of ``load_model`` and waits until the model is loaded. ``on_progress`` belongs to this user:
        if it returns False, only this user gives up, and the load continues for the others. The same holds for an
        interruption such as Ctrl-C.

        Raises:
            ModelLoadError: one of its subclasses. All users that wait for this load receive it; a later call starts a
                new load.
            ModelSpecError: the spec does not name a local model. Other runtimes have nothing to share: pass the result
                of one ``load_model`` to as many agents as you like.
            ServerClosedError: ``close()`` was called before or during the wait.
        """
        where = "another agent's command line" if names_program(spec) else ""
        if not where and names_remote(spec, options.get("backends", ())) is not None:
            where = "behind a server"
        if where:
            told = f"{spec} is {where}, and one runtime of it is shared as it is; use load_model()"
            raise ModelSpecError(told, spec=str(spec))
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
        """Return its models, in the order of their first request."""
        with self._lock:
            return tuple(map(_served, self._models.values()))

    def close(self) -> None:
        """Free all models, even those in use, cancel all loads, and wait for both. A second call does nothing."""
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
        claim = _Claim(model)
        model.claims.add(claim)
        if model.progress is not None:
            claim.events.put(model.progress)
        return claim

    def _begin(self, key: Hashable, source: Source, isolate: bool | Isolation, options: LoadOptions) -> _Claim:
        model = _Model(key, source)
        name = f"cogstep load {source.path.name}"
        threading.Thread(target=self._run_load, args=(model, isolate, options), name=name, daemon=True).start()
        self._models[key] = model
        self._all.add(model)
        return self._join(model)

    def _wait(self, claim: _Claim, on_progress: OnProgress | None) -> Runtime:
        """Wait until the model is loaded; raises the error of loading, or that this user gave up."""
        standing = claim.model.standing
        standing.add_done_callback(lambda _standing: claim.events.put(None))
        while (event := claim.events.get()) is not None:
            if on_progress is not None and on_progress(event) is False:
                raise LoadCancelledError(f"loading {_name(claim.model)} was cancelled", spec=_name(claim.model))
        return standing.result()

    def _leave(self, claim: _Claim) -> None:
        """Remove one user; free the model after the last. Does nothing for a user that has already left."""
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
        """Mark the model as unwanted; return whether it is loaded and the caller must free it. Call under the lock.

        A model that is still loading is freed by its load. A new user gets a new load.
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
        """Runs on its own thread."""

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


class SharedRuntime(Closeable):
    """One user's view of a shared model; see ``runtime.Runtime``. Created by ``ModelServer.acquire``.

    Requests share the model's batches and cache with other users; each conversation finds its cached sequence by its
    prefix. ``close`` releases the model: this user's replies end as cancelled, those of others continue. Leaving a
    ``with`` statement and garbage collection release it too.
    """

    def __init__(self, server: ModelServer, claim: _Claim, runtime: Runtime) -> None:
        self._runtime = runtime
        self._agent = new_owner()
        self._info = runtime.describe()
        self._door = threading.Lock()
        self._released = False
        self._replies: weakref.WeakSet[SharedGeneration] = weakref.WeakSet()
        # A garbage collection may come in the middle of anything, where nothing may wait. At the program's end the
        # model closes by itself.
        self._leave: Callable[[], None] = lambda: server._leave(claim)
        forgotten = weakref.finalize(self, _run_on_thread, self._leave)
        forgotten.atexit = False

    @property
    def released(self) -> bool:
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
        """Release the model; the last user's call waits until it is freed. A second call does nothing."""
        with self._door:
            self._released = True
            replies = tuple(self._replies)
        for reply in replies:
            reply.cancel()
        self._leave()

    def _open(self) -> Runtime:
        if self._released:
            raise ReleasedError(self._info.name)
        return self._runtime


class SharedGeneration:
    """A reply in progress; see ``runtime.Generation``. It references its user's view, so the model stays loaded."""

    def __init__(self, user: SharedRuntime, generation: Generation) -> None:
        self._user = user
        self._generation = generation

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        return next(self._generation)

    def cancel(self) -> None:
        self._generation.cancel()


def _served(model: _Model) -> ServedModel:
    begun = model.progress.fraction if model.progress else 0.0
    loaded = 1.0 if model.standing.done() else begun
    return ServedModel(str(model.source.path), model.source.backend, len(model.claims), loaded)


def _name(model: _Model) -> str:
    return model.source.path.name


def _run_on_thread(leave: Callable[[], None]) -> None:
    threading.Thread(target=leave, name="cogstep release", daemon=True).start()
