"""The embedding program's parts of a session, and how its answers become inputs of the engine.

``consultation`` maps an effect to the callable to ask, and to the function that reads its answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from attrs import Attribute, evolve, field, frozen

from cognition import (
    AgentConfig,
    ApprovalGiven,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    CognitiveEngine,
    ConfigError,
    HookReturned,
    Input,
    LLMEngine,
    MemoryRecalled,
    PlanReviewed,
    QuestionAnswered,
    Recall,
    ReviewPlan,
    RunHook,
    SpawnWorker,
)
from cognition.base.checking import show
from cognition.steps.decisions import EFFECT_TYPES, Effect
from cognition.values.messages import json_object_text
from interpreters.loop.program.approvals import (
    HANDED_IN,
    NOBODY,
    Answer,
    Approval,
    ApprovalRequest,
    Approve,
    WouldFail,
    as_input,
    spec_of,
)
from interpreters.loop.program.message_sources import ContextSource, PromptSource, sources_of
from interpreters.loop.program.pending import Later, Postponable
from interpreters.loop.program.questions import (
    AskQuestions,
    HookAnswer,
    HookRequest,
    Hooks,
    PlanAnswer,
    PlanRequest,
    QuestionRequest,
    ReviewPlans,
    chosen_options,
)
from interpreters.tools.log_lines import Hides
from interpreters.tools.tool import Tool, tool_result
from interpreters.tools.undo_hook import UndoHook
from runtime.protocol.model import Runtime
from runtime.scheduling.owners import new_owner
from runtime.stores.notes import Memory
from runtime.threads.event_loop import EventLoopThread

NEEDS_A_LOOP = "which needs an AsyncAgent, or behind a handle a turn that is read by `async for`"
DECLINED = "the user did not answer the model's questions"

WORKER_PATIENCE = 300.0
"""Seconds without progress (a step, a piece of text) after which a worker fails. A small machine needs less to read a
long prompt.
"""


@frozen(eq=False)
class Program:
    """The embedding program as its session sees it. If a part is None, its effects can't be carried out."""

    model: Runtime
    models: Mapping[str, Runtime] = field(factory=dict)
    """The other models, by the engine's names for them (``AgentConfig.models``)."""
    tools: Mapping[str, Tool[..., Any]] = field(factory=dict)
    approve: Approve | None = None
    ask: AskQuestions | None = None
    review: ReviewPlans | None = None
    memory: Memory | None = None
    hooks: Hooks = field(factory=dict)
    deps: Any = None
    system: PromptSource | None = None
    """Makes the system prompt for each message; None if it is fixed."""
    context: tuple[ContextSource, ...] = field(default=(), converter=sources_of)
    """Return candidates for the prompt of each message."""
    session: str = ""
    engine: Callable[[AgentConfig], CognitiveEngine] = LLMEngine
    """Makes a worker's engine."""
    worker_patience: float | None = field(default=WORKER_PATIENCE)
    reveal: Callable[[Any], Any] = lambda value: value
    """Restores the texts that the recording hides. Workers are not recorded, and use the real texts."""
    hides: Hides | None = None
    """Removes secrets from what is logged about the session; None if nothing is to be removed."""
    postpones: bool = True
    """Whether effects may be answered later. False for a worker, which ends with its parent's run."""
    raise_tool_errors: bool = False
    """Whether a bug in a tool ends the run and is raised from it."""
    performers: Mapping[type[Effect], Callable[..., Any]] = field(factory=dict)
    """Carry out effects in place of the usual performers: see ``performers``."""

    keeper: UndoHook | None = None
    """Saves the undo data of file changes; None without a recording to save it in."""

    tool_loop: EventLoopThread = field(factory=EventLoopThread)
    """Runs the ``async def`` tools of a session without an event loop, as long as it lives; shared with its workers."""
    owner: int = field(factory=new_owner)
    """Owner id for taking turns at the model: shared by this session and its workers (``scheduling.owners``)."""

    @worker_patience.validator
    def _check_patience(self, _attribute: Attribute[Any], value: float | None) -> None:
        if value is not None and not value > 0:  # said so that NaN is refused too
            raise ConfigError(f"worker_patience must be above 0 seconds, or None for no end, not {value!r}")

    @performers.validator
    def _check_performers(self, _attribute: Attribute[Any], value: Mapping[Any, Any]) -> None:
        for kind, performer in value.items():
            if kind not in EFFECT_TYPES:
                names = ", ".join(effect.__name__ for effect in EFFECT_TYPES)
                raise ConfigError(f"performers: {show(kind)} is no effect; the effects are {names}")
            if not callable(performer):
                raise ConfigError(f"performers: {show(performer)} is no function to perform {kind.__name__}")

    def check(self, engine: CognitiveEngine) -> None:
        """Check that the program can carry out every effect that the engine may decide.

        Raises:
            ConfigError: lists each missing part.
        """
        config: AgentConfig | None = getattr(engine, "config", None)
        needed: Any = getattr(engine, "effects", ())  # an engine need not say; then it is found out at the decision
        missing = [
            what
            for kind, given, what in (
                (AskUser, self.ask, "ask= for the questions of the model"),
                (ReviewPlan, self.review, "review= for its plans"),
                (Recall, self.memory, "memory= for its notes, such as runtime.Notes()"),
                (SpawnWorker, config, "an engine with a `config` to make workers of"),
            )
            if kind in needed and given is None and kind not in self.performers
        ]
        if RunHook in needed and RunHook not in self.performers and config is not None:
            missing += [f"hooks[{point!r}]" for point in config.hooks if point not in self.hooks]
        if CallModel not in self.performers and config is not None:
            missing += [f"models[{name!r}]" for name in config.models if name not in self.models]
        if missing:
            raise ConfigError(f"the agent is missing {', '.join(missing)}")

    def runtime(self, name: str) -> Runtime:
        """Return the model of this name; empty for the agent's own model.

        Raises:
            ConfigError: there is no such model.
        """
        if not name:
            return self.model
        if name not in self.models:
            raise ConfigError(f"the engine calls the model {name!r}, and the program has no such model: models={{...}}")
        return self.models[name]

    def for_worker(self, session: str, names: tuple[str, ...]) -> Program:
        """Return the same program with only a worker's tools."""
        tools = {name: self.tools[name] for name in names if name in self.tools}
        return evolve(self, session=session, tools=tools, system=None, context=(), postpones=False)


@frozen(eq=False)
class Consultation:
    """An effect that the program carries out by answering."""

    ask: Callable[[], Any]
    """Asks. Returns the answer, or a future or awaitable of it."""
    read: Callable[[Any], Input]
    """Reads the answer as an input. Raises ConfigError if it does not fit this effect."""
    what: str
    """The action, in the words of a warning that it failed."""

    def read_at_once(self, answer: Any) -> Input:
        """Do the same as ``read``, without an event loop."""
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigError(f"what was called to {self.what} is an async function, {NEEDS_A_LOOP}")
        return self.read(answer)


PATIENCE = 300.0
"""Seconds to wait for a ``Future`` outside of a session, where a cancellation is not possible."""


def answer_at_once(approve: Approve, effect: AskApproval, tool: Tool[..., Any], deps: Any, session: str) -> bool:
    """Ask, outside of a session, whether a call may run unchanged. Waits for a ``Future``.

    Raises:
        ConfigError: the answer is not valid. Exceptions of ``approve`` pass through.
    """
    question = ApprovalRequest(
        effect.call, effect.reason, tool=tool.spec, made=tool, deps=deps, session=session, access=effect.access
    )
    read = partial(as_input, effect, tool=tool.spec)
    asked = Consultation(partial(approve, question), read, f"ask about {effect.call.name}")
    answer = asked.ask()
    if isinstance(answer, Future):
        try:
            answer = answer.result(PATIENCE)
        except TimeoutError as error:
            if answer.done():  # it is what the future has in it
                raise
            raise ConfigError(f"approve gave a Future that had no answer within {PATIENCE:g} s") from error
    if isinstance(answer, Later):
        raise ConfigError("approve gave LATER, and nothing waits for it here: give True, False or an Approval")
    given = asked.read_at_once(answer)
    if isinstance(given, ApprovalGiven) and given.arguments_json not in (None, effect.call.arguments_json):
        raise ConfigError("approve gave other arguments, and here a call runs as it is recorded: give True or False")
    return isinstance(given, ApprovalGiven)


Consulted = AskApproval | AskUser | ReviewPlan | Recall | RunHook


def consultation(program: Program, effect: Consulted, is_cancelled: Callable[[], bool]) -> Consultation:
    """Return how to ask the program about an effect.

    Raises:
        ConfigError: the program has no callable for it. ``Program.check`` finds this at the start.
    """
    ask: Callable[[], Any]
    about: Any = {"session": program.session, "is_cancelled": is_cancelled, "effect_id": effect.effect_id}
    match effect:
        case AskApproval(call=call, reason=reason, access=access):
            approve: Any = program.approve or (lambda _request: Approval(False, NOBODY))
            tool = spec_of(program.tools, call.name)
            made = program.tools.get(call.name)
            request = ApprovalRequest(
                call, reason, tool=tool, made=made, deps=program.deps, access=access, hides=program.hides, **about
            )
            read = partial(as_input, effect, tool=tool)
            return Consultation(partial(_approve, approve, request), read, f"ask about {call.name}")
        case AskUser(questions=questions) if program.ask is not None:
            ask = partial(program.ask, QuestionRequest(questions, **about))
            return Consultation(ask, partial(_read_choice, effect), "ask the user")
        case ReviewPlan(plan=plan) if program.review is not None:
            ask = partial(program.review, PlanRequest(plan, **about))
            return Consultation(ask, partial(_read_review, effect), "show a plan")
        case Recall(query=query) if program.memory is not None:
            ask = partial(program.memory.recall, query)
            return Consultation(ask, partial(_read_recalled, effect), "search the notes")
        case RunHook(point=point, text=text, call=hooked) if point in program.hooks:
            ask = partial(program.hooks[point], HookRequest(point, text, hooked, **about))
            return Consultation(ask, partial(_read_hook, effect), f"run the hook {point}")
        case _:
            raise ConfigError(f"this program has nobody to ask for {type(effect).__name__}")


def _approve(approve: Approve, request: ApprovalRequest) -> Answer | WouldFail | Future[Answer] | Awaitable[Answer]:
    """Ask about a call, unless it would fail anyway."""
    failure = request.failure()
    return WouldFail(failure) if failure else approve(request)


def read_answer(effect: Postponable, answer: Any, tools: Mapping[str, Tool[..., Any]]) -> Input:
    """Return the input for an answer from a person or from the program.

    Args:
        effect: the effect to answer.
        answer: depends on the effect:

            - an approval: True, False or an ``Approval``
            - questions: as returned by ``ask``
            - a plan: True, False or a ``PlanAnswer``
            - a tool call: its result, or the exception that it failed with
        tools: the tools of the session.

    Raises:
        ConfigError: it does not fit this effect.
    """
    match effect:
        case AskApproval():
            return as_input(effect, answer, HANDED_IN, spec_of(tools, effect.call.name))
        case AskUser():
            return _read_choice(effect, answer)
        case ReviewPlan():
            return _read_review(effect, answer)
        case CallTool():
            return tool_result(effect, answer)


def _read_choice(effect: AskUser, chosen: Any) -> Input:
    if chosen is None:
        return CancelAsked(DECLINED)
    return QuestionAnswered(effect.effect_id, chosen_options(effect.questions, chosen))


def _read_review(effect: ReviewPlan, answer: Any) -> Input:
    if not isinstance(answer, bool | PlanAnswer):
        raise ConfigError(f"review has to return True, False or a PlanAnswer, not {answer!r}")
    full = answer if isinstance(answer, PlanAnswer) else PlanAnswer(answer)
    return PlanReviewed(effect.effect_id, full.approved, full.feedback)


def _read_recalled(effect: Recall, items: Any) -> Input:
    if isinstance(items, str) or not all(isinstance(item, str) for item in items):
        raise ConfigError(f"recall has to return texts, not {items!r}")
    return MemoryRecalled(effect.effect_id, tuple(items))


def _read_hook(effect: RunHook, answer: Any) -> Input:
    if answer is None:
        return HookReturned(effect.effect_id)
    if not isinstance(answer, HookAnswer):
        raise ConfigError(f"the hook {effect.point} has to return None or a HookAnswer, not {answer!r}")
    arguments = None if answer.arguments is None else json_object_text(answer.arguments)
    return HookReturned(effect.effect_id, answer.verdict, answer.reason, arguments, answer.context)


def is_closed_with(model: Runtime, owns_model: bool | None) -> bool:
    """Return whether closing an agent or a host also closes the model that the program passed in.

    ``owns_model`` decides if it is not None. By default the program keeps the model, as it may use it further. The
    exception is a model with ``ends_with_agent``, such as ``fakes.ScriptedModel``.
    """
    return bool(getattr(model, "ends_with_agent", False)) if owns_model is None else owns_model
