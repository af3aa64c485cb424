"""A session in which everything notes where it begins, and a canceller that strikes at any place of it.

A beginning is noted with the moment at which its turn was asked whether it may begin: what was asked before
``cancel()`` had returned may have been first. What begins without asking is noted with the moment itself.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from attrs import define, field

from cognition import AgentState, EffectId, Input, ModelRequest, Outcome, ToolMessage, Transition, TurnFinished
from cognition.values.features import HookPoint
from interpreters import Agent, AgentHost, AsyncAgent, Tool, ToolContext, events, fakes, tool
from interpreters.loop.mailbox_messages import Turn
from interpreters.observing.events import Event
from interpreters.recording.journal import Journal
from interpreters.testing.fakes.scripts import ScriptedGeneration
from tests.cognition.told import NOT_RUN
from tests.interpreters.rich import FEATURES, PAGE, RichModel
from tests.interpreters.signs import PATIENCE

How = Literal["here", "another thread", "a signal handler"]
HOWS: tuple[How, ...] = get_args(How)
Kind = Literal["sync", "asyncio", "handle"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@define(eq=False)
class Watch:
    """What began and when, and when the cancellation had returned."""

    stop: int | None
    """The place at which it strikes."""
    how: How
    cancel: Callable[[], object] = lambda: None
    places: int = 0
    struck: int | None = None
    """The moment when ``cancel()`` had returned."""
    over: int | None = None
    """The moment when the turn had ended. What begins later is the next message's, but for calls: it has none."""
    in_time: bool | None = False
    """Whether the turn had not come to its end when it was cancelled; None where it may have, or not."""
    began: list[tuple[int, str, str]] = field(factory=list)
    """Moment, what, and the id of the call, if it is one."""
    told: list[Event] = field(factory=list)
    decided: bool = False
    """The newest record has the turn's end, or will have it."""
    _clock: Iterator[int] = field(factory=itertools.count)
    _lock: threading.Lock = field(factory=threading.Lock)
    _asked: threading.local = field(factory=threading.local)

    def place(self, *, waited: bool = True) -> None:
        """Somebody may cancel here; ``waited``: the turn waits for what goes on here."""
        with self._lock:
            self.places += 1
            if self.places != self.stop:
                return
        self.in_time = not self.decided if waited or self.decided else None
        if self.how == "another thread":
            thread = threading.Thread(target=self.cancel)
            thread.start()
            thread.join(PATIENCE)
        elif self.how == "a signal handler" and threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGUSR1)
        else:
            self.cancel()
        self.struck = next(self._clock)

    def begins(self, what: str, call: str = "") -> None:
        """Something begins, right here."""
        now = next(self._clock)
        asked = self._asked.__dict__.pop("moment", None)
        self.began.append((now if asked is None else asked, what, call))

    @contextmanager
    def eyes(self) -> Iterator[None]:
        """See when a turn is asked whether something may begin, and strike before and after each record is written."""
        may_begin, write = Turn.try_begin, Journal.write
        asked = self._asked

        def begins(turn: Turn, effect_id: EffectId) -> bool:
            moment = next(self._clock)
            answer = may_begin(turn, effect_id)
            asked.__dict__.pop("moment", None)
            if answer:
                asked.moment = moment
            return answer

        def slow_write(journal: Journal, event: Input, transition: Transition, *rest: Any) -> None:
            self.decided = any(isinstance(decision, TurnFinished) for decision in transition.decisions)
            self.place()
            write(journal, event, transition, *rest)
            self.place()

        before = signal.getsignal(signal.SIGUSR1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Turn, "try_begin", begins)
            patch.setattr(Journal, "write", slow_write)
            patch.setattr("interpreters.recording.journal._writer.os.fsync", lambda descriptor: None)
            signal.signal(signal.SIGUSR1, lambda number, frame: self.cancel())
            try:
                yield
            finally:
                signal.signal(signal.SIGUSR1, before)

    def late(self) -> list[str]:
        """What began after the cancellation had returned."""
        if self.struck is None:
            return []
        return [
            what
            for moment, what, call in self.began
            if moment > self.struck and (self.over is None or moment < self.over or call)
        ]

    def told_falsely(self, state: AgentState) -> list[str]:
        """Calls of which the history says that they never ran, and which did."""
        ran = {call for _, _, call in self.began if call}
        results = [message for message in state.history if isinstance(message, ToolMessage)]
        return [result.call_id for result in results if result.content == NOT_RUN and result.call_id in ran]


class NotingModel(RichModel):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def submit(self, request: ModelRequest) -> ScriptedGeneration:
        self._watch.begins("model")
        self._watch.place()
        return super().submit(request)


def tools_of(watch: Watch, slept: threading.Event, *, native: bool) -> list[Tool[..., Any]]:
    """Those of ``rich_script``: some run on the session's thread, some on others, one is an ``async def``."""

    def start(context: ToolContext[Any]) -> None:
        watch.begins(context.tool, context.call_id if "/" not in context.session else "")
        watch.place()
        context.progress("at it")

    @tool(read_only=True)
    def look(n: int, context: ToolContext[Any]) -> int | str:
        start(context)
        return PAGE if n == 3 else n

    @tool(read_only=True)
    def double(n: int, context: ToolContext[Any]) -> int:
        start(context)
        return 2 * n

    @tool(read_only=True, timeout=5)
    def doze(context: ToolContext[Any]) -> None:
        start(context)
        assert slept.wait(PATIENCE)

    @tool(read_only=True, timeout=7)
    def doze_on_a_thread(context: ToolContext[Any]) -> None:
        start(context)
        assert slept.wait(PATIENCE)

    @tool(approval=True)
    def pay(amount: int, context: ToolContext[Any]) -> str:
        start(context)
        return f"paid {amount}"

    @tool(approval=True, name="pay")
    async def pay_later(amount: int, context: ToolContext[Any]) -> str:
        start(context)
        await asyncio.sleep(0)
        return f"paid {amount}"

    return [look, double, doze, doze_on_a_thread, pay_later if native else pay]


def callbacks(watch: Watch, *, native: bool) -> dict[str, Any]:
    """Whom the session asks: each notes that it was asked, and may be where the turn is cancelled."""

    def asked(what: str, answer: Any) -> Callable[[Any], Any]:
        def plain(request: Any) -> Any:
            watch.begins(what)
            watch.place()
            return answer

        async def later(request: Any) -> Any:
            watch.begins(what)
            watch.place()
            await asyncio.sleep(0)
            return answer

        return later if native else plain

    return {
        "ask": asked("ask", ["a"]),
        "review": asked("review", True),
        "approve": asked("approve", True),
        "hooks": {point: asked(f"hook {point}", None) for point in get_args(HookPoint)},
    }


class NotingNotes:
    """A memory that is asked. What the model was told is saved, is saved: that is no beginning."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def remember(self, text: str) -> None:
        here = threading.current_thread() is threading.main_thread()
        self._watch.place(waited=here)  # elsewhere a note is saved while the turn goes on

    def recall(self, query: str) -> list[str]:
        self._watch.begins("recall")
        self._watch.place()
        return ["Miu"]


@define
class Course:
    """What came of a turn that was cancelled, and of the message after it."""

    outcome: Outcome
    ends: int
    next: str
    state: AgentState | None


def run(kind: Kind, watch: Watch, journal: Path, *, native: bool = False) -> Course:
    """A turn with everything in it, and a greeting."""
    slept = threading.Event()

    def observe(event: Event) -> None:
        watch.told.append(event)
        watch.place()

    options: dict[str, Any] = {
        "features": FEATURES,
        "recall_first": True,
        "observers": [events.Inline(observe)],
        "worker_patience": None,
        "journal": journal,
        "fsync": "record",
        **callbacks(watch, native=native and kind == "asyncio"),
    }
    tools = tools_of(watch, slept, native=native)
    drive = {"sync": _sync, "asyncio": _asyncio, "handle": _handle}[kind]
    try:
        with watch.eyes():
            return drive(watch, NotingModel(watch), tools, options, slept)
    finally:
        slept.set()


def _course(watch: Watch, outcome: Outcome, say: str, state: AgentState | None) -> Course:
    watch.over = next(watch._clock)
    ended = [event for event in watch.told if isinstance(event.value, events.TurnFinished) and event.session == "s"]
    return Course(outcome, len(ended), say, state)


def _sync(watch: Watch, model: Any, tools: Any, options: dict[str, Any], slept: threading.Event) -> Course:
    with Agent(model, tools, memory=NotingNotes(watch), session="s", clock=fakes.FakeClock(), **options) as agent:
        watch.cancel = lambda: agent.cancel("enough")
        outcome = agent.run("Go!").outcome
        slept.set()
        watch.stop = None
        course = _course(watch, outcome, "", None)
        course.next = agent.run("Hi!").text
        course.state = agent.state
        return course


def _asyncio(watch: Watch, model: Any, tools: Any, options: dict[str, Any], slept: threading.Event) -> Course:
    async def main() -> Course:
        agent = AsyncAgent(model, tools, memory=NotingNotes(watch), session="s", clock=fakes.FakeClock(), **options)
        async with agent, asyncio.timeout(PATIENCE):
            watch.cancel = lambda: agent.cancel("enough")
            outcome = (await agent.run("Go!")).outcome
            slept.set()
            watch.stop = None
            course = _course(watch, outcome, "", None)
            course.next = (await agent.run("Hi!")).text
            course.state = agent.state
            return course

    return asyncio.run(main())


def _handle(watch: Watch, model: Any, tools: Any, options: dict[str, Any], slept: threading.Event) -> Course:
    with AgentHost.in_thread(model, clock=fakes.FakeClock()) as host:
        handle = host.open("s", tools, **options, notes=":memory:")
        watch.cancel = lambda: handle.cancel("enough")
        outcome = handle.run("Go!").outcome
        slept.set()
        watch.stop = None
        course = _course(watch, outcome, "", None)
        course.next = handle.run("Hi!").text
        return course
