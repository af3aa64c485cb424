"""A transition in the making. Lives inside one step and never leaves it, so that the state itself stays immutable."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from attrs import evolve

from cognition.candidates import Briefing
from cognition.config import AgentConfig, GenerationOptions
from cognition.context.briefing import briefed, briefing_size, with_standing
from cognition.context.window import (
    changed_size,
    fit,
    fixed_size,
    message_size,
    prompt_budget,
    reading_again,
    result_limit,
    scale_trusted,
    shorten,
    shown,
)
from cognition.decisions import CallModel, ContextAssembled, Decision, LimitHit, RunHook, TurnFinished
from cognition.engine_tools import SPAWN_WORKER
from cognition.history import History
from cognition.ids import EffectId, effect_id
from cognition.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, UserMessage
from cognition.outcomes import Completed, Failed, LimitKind, LimitReached, Outcome
from cognition.phases import IDLE, Hooked, ModelAttempt, Phase, Thinking
from cognition.requests import ModelRequest, Purpose
from cognition.state import AgentState, Counters, Spent, Window
from cognition.text_protocol import instructed, told_tools
from cognition.tools import ToolSpec
from cognition.transition import Transition
from cognition.vocabulary import engine_tools, own_name

Budget = Literal["input_tokens", "output_tokens", "cost", "seconds"]
"""The limits of what model calls take, in the order in which they are looked at; most programs set none."""

UNSPENT = Spent()
BUDGETS: tuple[Budget, ...] = get_args(Budget)
FINAL_ANSWER_NOTE = "Stop calling tools now ({reason}). Answer with what you know."


class Setup:
    """A configuration and what is derived from it once: shared by all steps of an engine, never changed."""

    __slots__ = (
        "asks",
        "beside",
        "budget",
        "budgets",
        "config",
        "engine_tools",
        "fixed",
        "offered",
        "prompt",
        "reader",
        "result_limit",
        "result_limits",
        "told",
        "tools",
    )

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.asks: Callable[[ToolCall, AgentState], bool] | None = None
        """What an engine of the program's own asks about beside what policy asks about."""
        self.offered = config.offered
        self.engine_tools: dict[str, str] = {
            tool.name: own_name(tool.name, config.names) for tool in engine_tools(config.features, config.names)
        }
        """The tools that the engine carries out itself: the names that they are offered under, each with ours."""
        self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in self.offered}
        workers = [name for name, ours in self.engine_tools.items() if ours == SPAWN_WORKER.name]
        self.beside = frozenset([*(tool.name for tool in self.offered if tool.runs_beside), *workers])
        """Tools whose calls may run beside their neighbours: they say so, or are workers, with states of their own."""
        self.prompt = config.prompt
        self.told = told_tools(config.protocol, config.offered)
        self.fixed = fixed_size(config)
        self.budget = prompt_budget(config)
        self.result_limit = result_limit(config)
        self.result_limits = {tool.name: tool.output_limit for tool in config.tools if tool.output_limit is not None}
        self.reader = next((tool.name for tool in config.tools if tool.rereads), "")
        """The tool that reads again what is left out of a result; empty without one."""
        self.budgets = tuple([name for name in BUDGETS if getattr(config.limits, name) is not None])

    def request(
        self,
        messages: History,
        purpose: Purpose,
        *,
        called: bool = False,
        returns: str = "",
        system: str | None = None,
        briefing: Briefing | None = None,
    ) -> ModelRequest:
        """The request for one model call, with these messages; without tools for a final answer.

        ``called``: the turn has made calls already, so that ``tool_choice`` forces none any more. ``returns``: the
        schema of the turn's answer, and ``system`` the prompt in place of the configuration's, as in ``AgentState``;
        ``briefing`` has the turn's sections.
        """
        config = self.config
        options, final = config.options, purpose == "final_answer"
        free = called and options.tool_choice != "none"
        choice = "none" if final else "auto" if free else options.tool_choice
        if config.protocol != "native":
            returns = ""  # its replies are text of their own form, which the answer is read out of
        own = bool(returns) and returns != options.response_format
        if choice != options.tool_choice or own:
            options = _options(options, choice, returns if own else "")
        tools = () if final or config.protocol != "native" else self.offered
        prompt = self.prompt if system is None else instructed(system, self.told)
        if briefing is not None:
            prompt, messages = with_standing(prompt, briefing), briefed(messages, briefing)
        return ModelRequest(prompt, messages, tools, options, config.protocol)

    def fixed_with(self, system: str | None) -> float:
        """Estimated tokens of what stands before the messages, with ``system`` as in ``request``."""
        return changed_size(self.fixed, self.config, system)


@lru_cache(maxsize=64)
def _options(options: GenerationOptions, choice: str, returns: str) -> GenerationOptions:
    """Options for one request. Equal options are one object, by which a journal sees that nothing changed."""
    if not returns:
        return evolve(options, tool_choice=choice)
    return evolve(options, tool_choice=choice, response_format=returns, response_checked=True)


class Draft:
    """The parts of the next state, changed one by one, and the decisions so far.

    The fields of ``Counters``, ``Spent`` and ``Window`` are plain attributes here: rebuilding such a part at each
    change would take half of a step's time.
    """

    __slots__ = (
        "_index",
        "_messages",
        "_spent",
        "_step",
        "_turn",
        "briefing",
        "called",
        "corrections",
        "cuts",
        "decisions",
        "first",
        "fixed",
        "history",
        "hook_continuations",
        "mode",
        "now",
        "nudges",
        "phase",
        "plan",
        "recent",
        "refusals",
        "remembered",
        "repairs",
        "resume_mode",
        "returns",
        "scale",
        "setup",
        "size",
        "started_at",
        "steps",
        "system",
        "tasks",
        "tool_calls",
        "total",
        "usage",
        "workers",
    )

    def __init__(self, setup: Setup, state: AgentState, spent: Spent | None = None) -> None:
        """``spent``: what the turn has used, where that is not what the state says."""
        self.setup = setup
        self.now = 0.0
        """The time of the input, where a call may begin; else the beginning of all time."""
        self.history = state.history
        self.phase: Phase = state.phase
        self.remembered = state.remembered
        self.total = state.total
        self.mode, self.resume_mode = state.mode, state.resume_mode
        self.tasks, self.plan, self.returns = state.tasks, state.plan, state.returns
        self.system = state.system
        self.fixed = setup.fixed if state.system is None else setup.fixed_with(state.system)
        self.briefing = state.briefing
        if state.briefing is not None:
            self.fixed += briefing_size(state.briefing)
        self.decisions: list[Decision] = []
        counters = state.counters
        self._turn, self._step = counters.turn, counters.step
        self._index, self._messages = counters.index, counters.messages
        window = state.window
        self.first, self.size = window.first, window.size
        self.scale, self.cuts = window.scale, window.cuts
        self._take_over(state.spent if spent is None else spent)

    def _take_over(self, spent: Spent) -> None:
        self._spent = spent
        self.started_at, self.steps, self.tool_calls = spent.started_at, spent.steps, spent.tool_calls
        self.refusals, self.nudges, self.repairs = spent.refusals, spent.nudges, spent.repairs
        self.workers, self.hook_continuations = spent.workers, spent.hook_continuations
        self.usage, self.recent, self.called = spent.usage, spent.recent, spent.called
        self.corrections = spent.corrections

    @property
    def turn(self) -> int:
        return self._turn

    def decide(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def begin_turn(self, now: float) -> None:
        """Begin the next turn; the draft has to be one of ``UNSPENT``."""
        self._turn, self._step, self._index = self._turn + 1, 0, 0
        self.started_at = now

    def change_system(self, system: str) -> None:
        """Go on with another system prompt."""
        self.system, self.fixed = system, self.setup.fixed_with(system) + briefing_size(self.briefing)

    def change_briefing(self, briefing: Briefing | None) -> None:
        """Go on with other sections."""
        self.briefing, self.fixed = briefing, self.setup.fixed_with(self.system) + briefing_size(briefing)

    def empty(self) -> None:
        """Forget the conversation and what its last turn used; ids go on counting."""
        self.history, self.first, self.size, self.scale, self.cuts = History(), 0, 0.0, 1.0, ()
        self.system, self.briefing = None, None  # they came with messages that are forgotten too
        self.fixed = self.setup.fixed
        self._take_over(UNSPENT)

    def new_effect(self) -> EffectId:
        index = self._index
        self._index = index + 1
        return effect_id(self._turn, self._step, index)

    def new_call_id(self, position: int) -> str:
        """The id of the call at ``position`` (from 1) of the current step's reply."""
        return f"call-{self._turn}-{self._step}-{position}"

    def new_message_id(self) -> str:
        self._messages += 1
        return f"m{self._messages}"

    def append(self, message: Message) -> None:
        self.history = self.history.append(message)
        self.size += message_size(message)

    def note(self, text: str) -> None:
        """Tell the model something in the user's role."""
        self.append(UserMessage(self.new_message_id(), text, "engine"))

    def keep_partial(self, text: str) -> None:
        """Keep in history what had arrived of a reply that was cut, if anything had."""
        if text:
            self.append(AssistantMessage(self.new_message_id(), text, interrupted=True))

    def record_result(self, call: ToolCall, result: ToolResult, note: str = "") -> None:
        """Write a result into history, with the program's note, which the tool's own limit leaves whole."""
        setup, content = self.setup, result.content
        own, again = setup.result_limits.get(call.name), reading_again(setup.reader, call.id)
        if own is not None:
            content = shorten(content, own, again)
        content = shorten(f"{content}\n{note}" if note else content, setup.result_limit, again)
        self.append(ToolMessage(self.new_message_id(), call.id, call.name, content, result.status))

    def ask_model(self, attempt: ModelAttempt, now: float, *, new_step: bool) -> None:
        """Call the model, or fail the turn if what must be shown doesn't fit."""
        setup = self.setup
        tokens = (self.fixed + self.size) * self.scale
        if tokens > setup.budget:  # otherwise the window stays where it is
            window = fit(self.history, self.window(), self.fixed, setup.budget, setup.reader)
            if window is None:
                self.finish(
                    Failed(
                        "context_overflow",
                        f"this turn needs about {self.prompt_tokens()} tokens and the prompt may have {setup.budget}; "
                        "ask for less at once, or use a model with a longer context",
                    )
                )
                self.trust_estimates()
                return
            self.first, self.size, self.cuts = window.first, window.size, window.cuts
            tokens = (self.fixed + self.size) * self.scale
        if new_step:
            self._step, self._index = self._step + 1, 0
        effect_id = self.new_effect()
        whole = messages = self.history.drop(self.first)
        shortened = 0
        if self.cuts:
            messages = shown(self.history, self.window(), setup.reader)
            shortened = sum(one is not other and one != other for one, other in zip(messages, whole, strict=True))
        request = setup.request(
            messages,
            attempt.purpose,
            called=self.called,
            returns=self.returns,
            system=self.system,
            briefing=self.briefing,
        )
        self.decisions.append(ContextAssembled(len(messages), self.first, int(tokens), setup.budget, shortened))
        self.decisions.append(
            CallModel(effect_id, attempt.purpose, request, self.seconds_left(now) if setup.budgets else None)
        )
        self.phase = Thinking(effect_id, attempt)

    def window(self) -> Window:
        return Window(self.first, self.size, self.scale, self.cuts)

    def trust_estimates(self) -> None:
        """Correct the scale after a turn of which no prompt got through."""
        self.scale = scale_trusted(self.scale)

    def prompt_tokens(self) -> int:
        """Estimated tokens of a prompt that shows the whole window."""
        return int((self.fixed + self.size) * self.scale)

    def next_model_call(self, now: float, attempt: ModelAttempt, limit: LimitKind | None = None) -> None:
        """Make the next model call of this turn, unless a budget ends the turn.

        At a soft limit, ``limit`` or the one of steps, that call is the last one and asks for an answer without tools.
        """
        hard = self.exhausted(now)
        if hard is not None:
            self.stop_at(hard)
            return
        limits = self.setup.config.limits
        if limit is None and self.steps >= limits.steps:
            limit = "steps"
        if limit is None:
            self.ask_model(attempt, now, new_step=True)
            return
        detail = self.limit_detail(limit)
        self.decide(LimitHit(limit, detail))
        self.note(FINAL_ANSWER_NOTE.format(reason=detail))
        self.ask_model(ModelAttempt("final_answer", limit=limit), now, new_step=True)

    def exhausted(self, now: float) -> LimitKind | None:
        """The budget that leaves no room for another model call."""
        limits = self.setup.config.limits
        if self.refusals >= limits.refusals:
            return "refusals"
        for budget in self.setup.budgets:
            spent = now - self.started_at if budget == "seconds" else getattr(self.usage, budget)
            if spent >= getattr(limits, budget):
                return budget
        return None

    def seconds_left(self, now: float) -> float | None:
        """How much of the turn's time is left."""
        seconds = self.setup.config.limits.seconds
        if seconds is None:
            return None
        return min(max(0.0, seconds - (now - self.started_at)), seconds)  # whatever clocks say, NaN included

    def limit_detail(self, limit: LimitKind) -> str:
        if limit == "loop":
            return "the same calls were repeated"
        value = getattr(self.setup.config.limits, limit)
        return f"the limit of {value:g} {limit.replace('_', ' ')} is reached"

    def stop_at(self, limit: LimitKind, text: str = "") -> None:
        """End the turn at a limit. ``text`` is what had arrived of a reply that it cut."""
        self.decide(LimitHit(limit, self.limit_detail(limit)))
        self.finish(LimitReached(limit, text))

    def stop_cut(self, detail: str, text: str) -> None:
        """End the turn at a reply that was cut at its token limit. ``text`` is what had arrived of it."""
        self.decide(LimitHit("max_tokens", detail))
        self.finish(LimitReached("max_tokens", text))

    def complete(self, outcome: Completed) -> None:
        """End the turn with an answer, after the program's ``stop`` hook if there is one."""
        if "stop" in self.setup.config.hooks:
            effect_id = self.new_effect()
            self.decide(RunHook(effect_id, "stop", outcome.text))
            self.phase = Hooked(effect_id, "stop", outcome)
        else:
            self.finish(outcome)

    def finish(self, outcome: Outcome) -> None:
        """End the turn; nothing may be decided after it."""
        self.total += self.usage
        self.decide(TurnFinished(outcome, self.usage))
        self.phase = IDLE

    def seal(self) -> Transition:
        counters = Counters(self._turn, self._step, self._index, self._messages)
        state = AgentState(
            self.history,
            self.phase,
            counters,
            self._sealed_spent(),
            Window(self.first, self.size, self.scale, self.cuts),
            self.remembered,
            self.total,
            self.mode,
            self.resume_mode,
            self.tasks,
            self.plan,
            self.returns,
            self.system,
            self.briefing,
        )
        return Transition(state, tuple(self.decisions))

    def _sealed_spent(self) -> Spent:
        """What the turn has used: where nothing was, the value that came in, since making one takes three times as
        long as looking.
        """
        spent = self._spent
        if (
            self.steps == spent.steps
            and self.started_at == spent.started_at
            and self.tool_calls == spent.tool_calls
            and self.refusals == spent.refusals
            and self.nudges == spent.nudges
            and self.repairs == spent.repairs
            and self.workers == spent.workers
            and self.hook_continuations == spent.hook_continuations
            and self.usage is spent.usage
            and self.recent is spent.recent
            and self.called == spent.called
            and self.corrections == spent.corrections
        ):
            return spent
        return Spent(
            self.started_at,
            self.steps,
            self.tool_calls,
            self.refusals,
            self.nudges,
            self.repairs,
            self.workers,
            self.hook_continuations,
            self.usage,
            self.recent,
            self.called,
            self.corrections,
        )
