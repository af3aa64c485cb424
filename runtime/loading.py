"""``load_model``: from a spec to a running model, with progress, on its own thread."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from attrs import evolve, frozen

from runtime.checking import checked_call
from runtime.children.frozen import FLAG
from runtime.errors import LoadCancelledError, ModelOptionsError, ModelSpecError
from runtime.isolated.settings import Isolation
from runtime.llama.options import LlamaOptions
from runtime.local.loading import load_engine
from runtime.local.owner import Owner
from runtime.local.real_model_guard import check_allowed
from runtime.models.specs import BackendName, Source, resolve
from runtime.programs.loading import load_program, names_program
from runtime.programs.options import ProgramOptions
from runtime.providers.loading import load_remote, names_remote
from runtime.scheduling.owners import QUEUE_LIMIT
from runtime.templates.override import NOTHING_CHOSEN, Override, choose

if TYPE_CHECKING:
    from cognition.parsing import FormatSpec
    from runtime.isolated.handles import IsolatedRuntime
    from runtime.local.engine import LocalEngine
    from runtime.local.handles import LocalRuntime
    from runtime.programs.handles import ProgramRuntime
    from runtime.providers.backends import Backend
    from runtime.providers.remote import RemoteRuntime
else:  # they would make `import runtime` slow
    FormatSpec = object
    Backend = object


Stage = Literal["download", "weights"]


@frozen
class LoadProgress:
    """The progress of a load."""

    stage: Stage
    fraction: float
    """0 to 1."""


OnProgress = Callable[[LoadProgress], object]
"""Called in the caller's thread during loading; returning False cancels the load."""


class LoadOptions(TypedDict, total=False):
    """Options of ``load_model`` other than the spec and ``isolate``; see there."""

    backend: BackendName | None
    context_tokens: int | None
    threads: int | None
    template: str | Path | None
    format: str | FormatSpec | None
    options: LlamaOptions | ProgramOptions | None
    queue_limit: int
    on_progress: OnProgress | None
    backends: Sequence[Backend]


@overload
def load_model(
    spec: Path | None = None, *, isolate: Literal[False] = False, **options: Unpack[LoadOptions]
) -> LocalRuntime: ...


@overload
def load_model(
    spec: str, *, isolate: Literal[False] = False, **options: Unpack[LoadOptions]
) -> LocalRuntime | ProgramRuntime | RemoteRuntime: ...


@overload
def load_model(
    spec: str | Path | None = None, *, isolate: Literal[True] | Isolation, **options: Unpack[LoadOptions]
) -> IsolatedRuntime: ...


@overload
def load_model(
    spec: str | Path | None = None, *, isolate: bool | Isolation = False, **options: Unpack[LoadOptions]
) -> LocalRuntime | IsolatedRuntime | ProgramRuntime | RemoteRuntime: ...


@checked_call
def load_model(
    spec: str | Path | None = None,
    *,
    isolate: bool | Isolation = False,
    backend: BackendName | None = None,
    context_tokens: int | None = None,
    threads: int | None = None,
    template: str | Path | None = None,
    format: str | FormatSpec | None = None,
    options: LlamaOptions | ProgramOptions | None = None,
    queue_limit: int = QUEUE_LIMIT,
    on_progress: OnProgress | None = None,
    backends: Sequence[Backend] = (),
) -> LocalRuntime | IsolatedRuntime | ProgramRuntime | RemoteRuntime:
    """Load a model and return a runtime for it, ready for ``submit``. Close it, or use it in a ``with`` statement.

    Args:
        spec: a ``.gguf`` file, an MLX directory, ``hf:owner/repo[@rev][/file]``, or None for the small model that ships
            with cogstep. Or a model behind a server, unless a file or directory has that name: ``openai/NAME`` (or
            another backend), ``NAME@BACKEND``, ``http://HOST/v1|NAME``. A remote model accepts only ``context_tokens``,
            ``queue_limit`` and ``backends`` (``docs/guides/remote-models.md``). Or another agent's command line:
            ``claude``, ``claude:MODEL``, ``codex``, ``codex:MODEL``. It accepts only ``options``, ``context_tokens``
            and ``queue_limit`` (``docs/guides/command-line-models.md``).
        isolate: whether to run the model in a child process, which is restarted if native code crashes, runs out of
            memory or hangs. An ``Isolation`` sets the timeouts.
        backend: ``"llama"`` or ``"mlx"``; None selects by the model's format. The shipped model exists for both:
            llama.cpp if installed, else MLX.
        context_tokens: the maximum length of prompt and reply together; None is the model's trained length, at most
            8192.
        threads: for llama.cpp on a CPU; None is the number of physical cores, or 1 for a small model.
        template: a chat template that replaces the model's own: its Jinja2 text, a ``.jinja`` file, or another model (a
            ``.gguf`` file, a directory, ``hf:owner/repo``).
        format: how to parse the model's replies, instead of the format derived from the template: a format name
            (``"hermes"``; see ``cognition.parsing.FORMATS``) or a ``FormatSpec``.
        options: more options of llama.cpp, such as cache size, GPU layers and LoRA adapters; or ``ClaudeOptions`` or
            ``CodexOptions``.
        queue_limit: the maximum number of waiting and running requests of one agent; all agents together may have eight
            times as many. Further requests fail immediately as ``rate_limit``, and an agent retries them.
        on_progress: called in the caller's thread during loading. Returning False cancels the load. A remote model does
            not load and reports no progress.
        backends: additional servers of remote models, by name; may replace a built-in one.

    Raises:
        ModelLoadError: one of its subclasses, with a one-line remedy.
    """
    numbers = {"context_tokens": (context_tokens, 2), "threads": (threads, 1), "queue_limit": (queue_limit, 1)}
    for option, (number, least) in numbers.items():
        if number is not None and number < least:
            raise ModelSpecError(f"{option} must be at least {least}, not {number}", spec=str(spec or ""))
    refused = {"isolate": isolate, "backend": backend, "threads": threads, "template": template, "format": format}
    if names_program(spec):
        return load_program(str(spec), refused | {"backends": backends}, options, context_tokens, queue_limit)
    if isinstance(options, ProgramOptions):
        raise ModelOptionsError(f"{type(options).__name__} are for another agent's command line", spec=str(spec or ""))
    remote = names_remote(spec, backends)
    if remote is not None:
        return load_remote(remote, refused | {"options": options}, context_tokens, queue_limit)
    chosen = choose(template, format, str(spec or ""))
    watch = _Watch()
    name = str(spec) if spec is not None else "small model"

    find = partial(resolve, spec, backend, partial(watch.report, "download"))
    if isolate:
        settings = Isolation() if isolate is True else isolate
        return _load_isolated(
            find, settings, context_tokens, threads, options, watch, name, on_progress, "", queue_limit, chosen
        )

    def load() -> LocalEngine:
        return load_engine(find(), context_tokens, threads, options, partial(watch.report, "weights"), chosen)

    def step(engine: LocalEngine) -> bool:
        return engine.step(owner.wanted)

    owner: Owner[LocalEngine] = Owner(load, lambda engine: engine.close(), step=step, name=name)
    watch.wait(owner.ready, on_progress, owner.abandon)
    if watch.cancelled.is_set():
        owner.abandon()
        raise LoadCancelledError(f"loading {name} was cancelled", spec=str(spec or ""))
    from runtime.local.handles import (
        LocalRuntime,  # loaded by now; importing it up there would make `import runtime` slow
    )

    return LocalRuntime(owner, queue_limit)


def _load_isolated(
    find: Callable[[], Source],
    settings: Isolation,
    context_tokens: int | None,
    threads: int | None,
    options: LlamaOptions | None,
    watch: _Watch,
    name: str,
    on_progress: OnProgress | None,
    module: str = "",
    queue_limit: int = QUEUE_LIMIT,
    chosen: Override = NOTHING_CHOSEN,
) -> IsolatedRuntime:
    """Find the model here and load it in the child; ``module`` replaces the module that the child runs."""
    if sys.argv[1:2] == [FLAG]:
        told = "this frozen program was started to be the process of a model, and did not become it"
        todo = "call runtime.freeze_support() in the first line of the program's main module"
        raise ModelSpecError(f"{told}: {todo}", spec=name)
    from runtime.isolated import wire
    from runtime.isolated.handles import IsolatedRuntime
    from runtime.isolated.process import CHILD
    from runtime.isolated.supervisor import Supervisor

    def prepare() -> wire.Load:
        source = find()
        check_allowed(f"load {source.path}")
        path, whole = os.path.abspath(source.path), options  # the child runs in another folder
        if options is not None:
            adapters = tuple(evolve(one, path=Path(os.path.abspath(one.path))) for one in options.adapters)
            whole = evolve(options, adapters=adapters)
        return wire.Load(source.backend, path, settings.silence / 4, context_tokens, threads, whole, chosen)

    on_weights = partial(watch.report, "weights")
    supervisor = Supervisor(prepare, settings, name=name, on_progress=on_weights, module=module or CHILD)
    watch.wait(supervisor.ready, on_progress, supervisor.abandon)
    return IsolatedRuntime(supervisor, queue_limit)


class _Watch:
    """Carries progress from the owner's thread to the caller's, and a cancellation back."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._events: SimpleQueue[LoadProgress | None] = SimpleQueue()

    def report(self, stage: Stage, fraction: float) -> bool:
        """Report progress; return False if the load is cancelled."""
        self._events.put(LoadProgress(stage, fraction))
        return not self.cancelled.is_set()

    def wait(self, ready: Future[Any], on_progress: OnProgress | None, abandon: Callable[[], None]) -> None:
        """Wait until the model is loaded; raises the error of loading. On any error, abandon the model."""
        ready.add_done_callback(lambda _ready: self._events.put(None))
        try:
            while (event := self._events.get()) is not None:
                if on_progress is not None and on_progress(event) is False:
                    self.cancelled.set()
            ready.result()
        except BaseException:  # Ctrl-C, or an error in on_progress or of loading
            self.cancelled.set()
            abandon()
            raise
