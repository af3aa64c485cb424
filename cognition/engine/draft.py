"""A transition under construction. It lives inside one step, so that the state itself stays immutable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import evolve

from cognition.base.ids import EffectId, effect_id
from cognition.context.sections import briefing_size, insert_briefing
from cognition.context.summaries import (
    cutting_point,
    end_of_piece,
    is_due,
    summarised_until,
    summary_instruction,
    summary_request,
)
from cognition.context.token_counts import tokens_of
from cognition.context.tool_results import prepare_result
from cognition.context.window import (
    before_window,
    end_of_asking,
    fit,
    fit_or_smallest,
    is_asking,
    message_size,
    scale_without_measurement,
    system_size,
    visible_messages,
    visible_size,
)
from cognition.engine._setup import Budget, Setup as Setup
from cognition.policy.rules import Rule
from cognition.steps.decisions import CallModel, ContextAssembled, Decision, LimitHit, RunHook, TurnFinished
from cognition.steps.phases import IDLE, Compacting, Hooked, Idle, ModelAttempt, Phase, Thinking
from cognition.steps.requests import ModelRequest
from cognition.steps.state import NO_SUMMARY, AgentState, Counters, Spent, Summary, Window
from cognition.steps.transition import Transition
from cognition.values.candidates import Briefing
from cognition.values.content import TextPart
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.features import Plan, Task
from cognition.values.history import History
from cognition.values.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from cognition.values.outcomes import Completed, Failed, LimitKind, LimitReached, Outcome
from cognition.values.routing import OWN, HealthOf, ModelTask, choose, order_of

UNSPENT = Spent()
OUTPUT_BUDGETS: tuple[Budget, ...] = ("output_tokens", "session_output_tokens")
OF_SESSION: tuple[Budget, ...] = ("session_input_tokens", "session_output_tokens", "session_cost")
FINAL_ANSWER_NOTE = "Stop calling tools now ({reason}). Answer with what you know."

LEAST_FOR_STEPS = 512
"""The fewest tokens of the context, or an eighth of a smaller one, that system prompt, tools and the newest message
have to leave for a turn's steps.
"""
NO_ROOM_FOR_STEPS = (
    "the system prompt, the tools and the newest message take about {} of the {} tokens of the context, which leaves "
    "too little for calls and their results; use a model with a longer context, or offer fewer tools"
)
OVERFLOW = (
    "this turn needs about {} tokens and the prompt may have {}; ask for less at once, or use a model with a longer "
    "context"
)
SHORT = 100
"""More tokens than a shortened result has beside its markers and its note."""
LONG = 4_000
"""Characters of a result that is longer than any prompt shows it when there is no room."""
IMAGES_NOTE = "The images of the result of {name} ({id}):"


class Draft:
    """The parts of the next state, changed one by one, and the decisions so far.

    The fields of ``Counters``, ``Spent`` and ``Window`` are plain attributes here: rebuilding these values at each
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
        "costs",
        "cuts",
        "decisions",
        "first",
        "fixed",
        "given_up",
        "health",
        "history",
        "hook_continuations",
        "mode",
        "model",
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
        "slack",
        "started_at",
        "steps",
        "summary",
        "system",
        "tasks",
        "tool_calls",
        "total",
        "turns",
        "usage",
        "workers",
    )

    called: bool
    corrections: int
    cuts: tuple[tuple[int, int], ...]
    first: int
    given_up: tuple[str, ...]
    health: HealthOf
    hook_continuations: int
    model: str | None
    nudges: int
    plan: Plan | None
    recent: tuple[str, ...]
    refusals: int
    repairs: int
    returns: str
    scale: float
    size: float
    slack: float
    started_at: float
    steps: int
    summary: Summary
    tasks: tuple[Task, ...]
    tool_calls: int
    turns: int
    usage: Usage
    workers: int

    def __init__(self, setup: Setup, state: AgentState, spent: Spent | None = None) -> None:
        """Start from ``state``; ``spent`` replaces the turn's usage in it."""
        self.setup: Setup = setup
        self.now: float = 0.0
        """The time of the input if a call may begin; else 0."""
        self.history: History = state.history
        self.phase: Phase = state.phase
        self.remembered: tuple[Rule, ...] = state.remembered
        self.total: Usage = state.total
        self.mode, self.resume_mode = state.mode, state.resume_mode
        self.tasks, self.plan, self.returns = state.tasks, state.plan, state.returns
        self.system, self.costs, self.briefing = state.system, state.costs, state.briefing
        self.model, self.health = state.model, state.health
        self.fixed: float = setup.fixed
        if self.system is not None or self.costs is not None or self.briefing is not None:
            self.fixed = setup.fixed_size_with(self.system, self.costs) + briefing_size(self.briefing)
        self.decisions: list[Decision] = []
        counters = state.counters
        self._turn, self._step = counters.turn, counters.step
        self._index, self._messages = counters.index, counters.messages
        window = state.window
        self.first, self.size = window.first, window.size
        self.scale, self.cuts, self.summary = window.scale, window.cuts, window.summary
        self.turns, self.slack = window.turns, window.slack
        self._take_over(state.spent if spent is None else spent)

    def _take_over(self, spent: Spent) -> None:
        self._spent = spent
        self.started_at, self.steps, self.tool_calls = spent.started_at, spent.steps, spent.tool_calls
        self.refusals, self.nudges, self.repairs = spent.refusals, spent.nudges, spent.repairs
        self.workers, self.hook_continuations = spent.workers, spent.hook_continuations
        self.usage, self.recent, self.called = spent.usage, spent.recent, spent.called
        self.corrections, self.given_up = spent.corrections, spent.given_up

    @property
    def turn(self) -> int:
        return self._turn

    def decide(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def begin_turn(self, now: float) -> None:
        """Begin the next turn. The draft must have been created with ``UNSPENT``."""
        self._turn, self._step, self._index = self._turn + 1, 0, 0
        self.started_at = now

    def change_system(self, system: str) -> None:
        self.system = system
        self._update_fixed()

    def change_briefing(self, briefing: Briefing | None) -> None:
        if briefing is not self.briefing:
            self.briefing = briefing
            self._update_fixed()

    def change_costs(self, costs: TemplateCosts) -> None:
        self.costs = costs
        self._update_fixed()

    def _update_fixed(self) -> None:
        self.fixed, self.slack = self.setup.fixed_size_with(self.system, self.costs) + briefing_size(self.briefing), 0.0

    def empty(self) -> None:
        """Forget the conversation and its last turn's usage; ids keep counting."""
        self.history, self.first, self.size, self.scale, self.cuts = History(), 0, 0.0, 1.0, ()
        self.summary, self.turns, self.slack = NO_SUMMARY, 0, 0.0
        self.system = self.briefing = self.costs = None  # they came with messages that are forgotten too
        self.fixed = self.setup.fixed
        self._take_over(UNSPENT)

    def new_effect(self) -> EffectId:
        index = self._index
        self._index = index + 1
        return effect_id(self._turn, self._step, index)

    def new_call_id(self, position: int) -> str:
        """Return the id of the call at ``position`` (from 1) of the current step's reply."""
        return f"call-{self._turn}-{self._step}-{position}"

    def new_message_id(self) -> str:
        self._messages += 1
        return f"m{self._messages}"

    def append(self, message: Message) -> None:
        # Without costs, it was counted by nobody whose costs are known.
        tokens = () if self.costs is None else tokens_of(message, self.costs)
        if tokens is not message.tokens:
            message = evolve(message, tokens=tokens)
        self.history = self.history.append(message)
        self.size += message_size(message)

    def note(self, text: str, tokens: Tokens = ()) -> None:
        """Add an engine note to the model in the user's role; ``tokens`` as in ``UserMessage``."""
        self.append(UserMessage(self.new_message_id(), text, "engine", tokens=tokens))

    def keep_partial(self, text: str) -> None:
        """Keep the text of a cut reply in history, if there is any."""
        if text:
            self.append(AssistantMessage(self.new_message_id(), text, interrupted=True))

    def record_result(self, call: ToolCall, result: ToolResult, note: str = "") -> None:
        """Append a result to history, with the program's note. The tool's own limit does not shorten the note."""
        setup = self.setup
        own, again = setup.result_limits.get(call.name), setup.note.again(call.name, call.id)
        one = prepare_result(result, self.costs, own, setup.result_limit, note, again, call.name)
        message = self.new_message_id(), call.id, call.name, one.content, result.status, one.tokens, one.left_out
        self.append(ToolMessage(*message))

    def record_results(self, results: Sequence[tuple[ToolCall, ToolResult, str]]) -> None:
        """Append the results of all calls of a reply, each with its note, then their pictures.

        Results must be adjacent. Pictures are user messages, since templates have no place for pictures in results.
        """
        for call, result, note in results:
            self.record_result(call, result, note)
        for call, result, _ in results:
            if result.images:
                told = TextPart(IMAGES_NOTE.format(name=call.name, id=call.id))
                self.append(UserMessage(self.new_message_id(), "", "engine", (told, *result.images)))

    def next_model_call(
        self,
        now: float,
        attempt: ModelAttempt,
        limit: LimitKind | None = None,
        *,
        again: bool = False,
        warning: str = "",
    ) -> None:
        """Make the next model call of this turn, unless a budget ends the turn or the required messages do not fit.

        At a soft limit (``limit``, or the limit of steps) this is the last call: it asks for an answer without tools.

        Args:
            now: the time.
            attempt: the call's purpose and number.
            limit: the soft limit that was reached, if any.
            again: whether this is another attempt of the same call, whose budget is already checked.
            warning: a note to the model, unless this is the last call.
        """
        setup = self.setup
        if not again:
            hard = self.exhausted_limit(now)
            if hard is not None:
                self.stop_at(hard)
                return
            if limit is None and self.steps >= setup.config.limits.steps:
                limit = "steps"
            if limit is not None:
                detail = self.limit_detail(limit)
                self.decide(LimitHit(limit, detail))
                self.note(FINAL_ANSWER_NOTE.format(reason=detail))
                attempt = ModelAttempt("final_answer", limit=limit)
            elif warning:
                self.note(warning)
        tokens = (self.fixed + self.size - self.slack) * self.scale
        if tokens > setup.full:  # otherwise the window stays where it is
            if self._begin_summary(attempt, now) or not self._make_room():
                return
            tokens = (self.fixed + self.size - self.slack) * self.scale
        if not again:
            self._step, self._index = self._step + 1, 0
        effect_id = self.new_effect()
        whole = messages = self.history.drop(self.first)
        dropped, shortened = self.first, 0
        if self.cuts or self.summary is not NO_SUMMARY:
            window = self.window()
            messages, front = (
                visible_messages(self.history, window, setup.note_with(self.costs)),
                before_window(self.history, window),
            )
            dropped -= len(front) - bool(self.summary.text) - bool(self.summary.skipped)
            behind = messages.drop(len(front))
            shortened = sum(one is not other and one != other for one, other in zip(behind, whole, strict=True))
        request = setup.request(
            messages,
            attempt.purpose,
            called=self.called,
            returns=self.returns,
            system=self.system,
            briefing=self.briefing,
            most=self.most_output() if setup.budgets else None,
        )
        counted, model = self.costs is not None, OWN
        if setup.config.models:
            model = self.model_for(self.task, now)
            if attempt.model != model:
                attempt = evolve(attempt, model=model)
        self.decisions.append(
            ContextAssembled(len(messages), dropped, int(tokens), setup.budget, shortened, self.turns, counted)
        )
        self.decisions.append(
            CallModel(effect_id, attempt.purpose, request, self.seconds_left(now) if setup.budgets else None, model)
        )
        self.phase = Thinking(effect_id, attempt)

    def fitting_window(self) -> Window | None:
        """Return the window of the next prompt; None if counts show that it can't fit.

        If it does not fit the budget, the part set aside for the reply gives way. If it does not fit by an estimate
        even then, the window is the smallest possible, since the estimate may be too high.
        """
        setup, note, now = self.setup, self.setup.note_with(self.costs), self.window()
        window = fit(self.history, now, self.fixed, setup.budget, note)
        if window is not None or setup.config.edition == 1:
            return window
        window = fit_or_smallest(self.history, now, self.fixed, setup.longest, note)
        return window if self.costs is None or self._fits(window) else None

    def _fits(self, window: Window) -> bool:
        """Return whether a prompt with this window fits if its reply gets the least room."""
        return (self.fixed + window.size - window.slack) * window.scale <= self.setup.longest

    def why_no_room(self, calls: Sequence[ToolCall]) -> str:
        """Return why none of these calls may run, because the next prompt might not fit; empty if they may.

        The calls' reply is the newest message. There has to be room for a long result of one of them beside empty ones
        of the others, and for some steps of the turn. Without counted sizes nobody knows, and the result is empty.
        """
        setup, note, costs = self.setup, self.setup.note_with(self.costs), self.costs
        if costs is None or setup.config.edition == 1:
            return ""
        context = setup.config.context_tokens
        most = min(context - min(LEAST_FOR_STEPS, context // 8), setup.longest)
        if (self.fixed + self.size + len(calls) * (costs.result + costs.cut + SHORT)) * self.scale <= most:
            return ""
        asked = len(self.history) - 1
        while asked > 0 and not is_asking(self.history[asked]):
            asked -= 1
        needed = self.fixed + sum(map(message_size, self.history[asked : end_of_asking(self.history, asked)]))
        if needed * self.scale > most:
            return NO_ROOM_FOR_STEPS.format(int(needed * self.scale), context)
        texts = ("x" * LONG, *("" for _ in calls[1:]))
        results = [ToolMessage("", call.id, call.name, text) for call, text in zip(calls, texts, strict=True)]
        results = [evolve(result, tokens=tokens_of(result, costs)) for result in results]
        history = self.history.append(*results)
        window = evolve(self.window(), slack=0.0, size=self.size + sum(map(message_size, results)))
        smallest = fit_or_smallest(history, window, self.fixed, setup.longest, note)
        needed = (self.fixed + smallest.size) * self.scale
        return "" if needed <= setup.longest else OVERFLOW.format(int(needed), setup.longest)

    def _make_room(self) -> bool:
        """Move the window so that the messages fit the budget; if counts show that they can't, end the turn."""
        window = self.fitting_window()
        if window is not None:
            self.move(window)
            return True
        self.finish(Failed("context_overflow", OVERFLOW.format(self.prompt_tokens(), self.setup.longest)))
        self.trust_estimates()
        return False

    def _begin_summary(self, attempt: ModelAttempt, now: float) -> bool:
        """Ask for a summary if due, and return whether it was asked; the turn then continues with ``attempt``.

        Ask only if the limit of steps leaves another step.
        """
        setup = self.setup
        config = setup.config
        if config.compact_at is None or attempt.purpose == "final_answer":
            return False
        if self.steps + 1 >= config.limits.steps or not is_due(self.history, self.summary):
            return False
        arguments = self.history, self.window(), setup.budget / self.scale, setup.note_with(self.costs)
        until = cutting_point(*arguments)
        if until is not None and self._shares_model(now) and self.prefix_request(until) is None:
            fewer = cutting_point(*arguments, self._prefix_room())
            until = until if fewer is None or self.prefix_request(fewer) is None else fewer
        return until is not None and self.ask_summary(attempt, until, self.seconds_left(now), now)

    def ask_summary(
        self,
        attempt: ModelAttempt | None,
        until: int,
        seconds: float | None,
        now: float,
        number: int = 1,
        *,
        apart: bool = False,
    ) -> bool:
        """Ask the model for a summary of the messages before ``until``.

        The request is the conversation's prompt with an instruction behind it if possible, unless ``apart`` is set;
        else a prompt of its own, with the first piece of these messages that fits (see ``Compacting``). Return False,
        changing nothing, if no request fits.
        """
        end, target, model = until, None, self.model_for("summary", now)
        asking = self.prefix_request(until) if not apart and self._shares_model(now) else None
        shares = asking is not None
        if asking is None:
            if self.setup.config.edition != 1:
                until = end_of_piece(self.history, self.window(), end, self._summary_room(), self.costs)
                target = end if until < end else None
            asking = self.summary_request(until)
        if asking is None:
            return False
        if number == 1:
            self._step, self._index = self._step + 1, 0
        effect_id = self.new_effect()
        self.decisions.append(CallModel(effect_id, "summary", asking[0], seconds, model))
        self.phase = Compacting(effect_id, attempt, until, number, model=model, target=target, shares_prefix=shares)
        return True

    def _shares_model(self, now: float) -> bool:
        """Return whether the turn's model writes its summaries too, and so knows the beginning of its prompts."""
        return self.model_for("summary", now) == self.model_for(self.task, now)

    @property
    def task(self) -> ModelTask:
        """The task of a model call that is not for a summary."""
        return "plan" if self.mode == "plan" else "answer"

    def model_for(self, task: ModelTask, now: float) -> str:
        return choose(self.order(task), self.health, self.given_up, now) if self.setup.config.models else OWN

    def order(self, task: ModelTask) -> tuple[str, ...]:
        """Return the models allowed for a task, in the order of trying."""
        config = self.setup.config
        return order_of(self.model, config.routes, config.fallback, task)

    def request_of(self, phase: Compacting) -> tuple[ModelRequest, float] | None:
        """Return the request that this phase made, with its unscaled size; None if it no longer fits."""
        return (self.prefix_request if phase.shares_prefix else self.summary_request)(phase.until)

    def prefix_request(self, until: int) -> tuple[ModelRequest, float] | None:
        """Return the request for a summary behind the conversation's prompt up to ``until``, with its unscaled size.

        None if it does not fit, or if the prompt lacks messages that no summary replaces. Edition 1 has none.
        """
        setup, window = self.setup, self.window()
        lacks = window.first > summarised_until(window) or window.summary.skipped
        if setup.config.edition == 1 or lacks or until <= window.first:
            return None
        note, front = setup.note_with(self.costs), before_window(self.history, window)
        message = self._instruction()
        size = self.fixed + sum(map(message_size, front)) + message_size(message)
        size += sum(visible_size(self.history, window, index, note) for index in range(window.first, until))
        if size * self.scale > setup.summary_room:
            return None
        shown = insert_briefing(visible_messages(self.history, window, note), self.briefing)
        messages = History((*shown[: len(front) + until - window.first], message))
        prompt = setup.system_with(self.system, self.briefing)
        return setup.prefix_request(messages, prompt, self._most_of_summary(size)), size

    def _instruction(self) -> UserMessage:
        return summary_instruction(self.setup.budget / self.scale, self.costs)

    def _prefix_room(self) -> float:
        """Return the unscaled tokens of messages in a request for a summary behind the conversation's prompt."""
        return self.setup.summary_room / self.scale - self.fixed - message_size(self._instruction())

    def _most_of_summary(self, size: float) -> int | None:
        """Return the tokens that the budgets leave for a summary, as ``most_output``; ``size``: of its prompt."""
        return (
            self._fewer_tokens(self.setup.summary_options.max_tokens, size * self.scale) if self.setup.budgets else None
        )

    def summary_request(self, until: int) -> tuple[ModelRequest, float] | None:
        """Return the request for a summary of the messages before ``until``, with its unscaled size; None if it does
        not fit.
        """
        setup, scale, fixed = self.setup, self.summary.scale or self.scale, self._bare_size()
        prompt, room, budget = setup.system_with(self.system, self.briefing), self._summary_room(), setup.budget / scale
        unsummarised = setup.config.edition != 1
        message = summary_request(
            self.history, self.window(), until, room, budget, self.costs, unsummarised=unsummarised
        )
        if message is None:
            return None
        size = fixed + message_size(message)
        return setup.summary_request(message, prompt, self._most_of_summary(size)), size

    def _summary_room(self) -> float:
        return self.setup.summary_room / (self.summary.scale or self.scale) - self._bare_size()

    def _bare_size(self) -> float:
        """Return the unscaled tokens before the message that asks for a summary."""
        costs = self.costs
        if costs is None:
            return system_size(self.setup.system_with(self.system, self.briefing))
        return self.fixed - costs.fixed + costs.bare

    def window(self) -> Window:
        return Window(self.first, self.size, self.scale, self.cuts, self.summary, self.turns, self.slack)

    def move(self, window: Window) -> None:
        self.first, self.size, self.cuts, self.summary = window.first, window.size, window.cuts, window.summary
        self.turns, self.slack = window.turns, window.slack

    def trust_estimates(self) -> None:
        """Correct the scale after a turn without a successful prompt."""
        self.scale = scale_without_measurement(self.scale)

    def prompt_tokens(self) -> int:
        """Return the estimated tokens of a prompt that shows the whole window."""
        return int((self.fixed + self.size - self.slack) * self.scale)

    def exhausted_limit(self, now: float) -> LimitKind | None:
        """Return the budget that prevents another model call, or None."""
        limits = self.setup.config.limits
        if self.refusals >= limits.refusals:
            return "refusals"
        for budget in self.setup.budgets:
            spent = now - self.started_at if budget == "seconds" else self._used(budget)
            if spent >= getattr(limits, budget):
                return budget
        return None

    def _used(self, budget: Budget) -> int | float:
        """Return how much of a budget of tokens or cost is used up. Tokens may be more than a float can be."""
        name = budget.removeprefix("session_")
        if name == budget:
            return cast("int | float", getattr(self.usage, name))
        between_turns = isinstance(self.phase, Idle) or (isinstance(self.phase, Compacting) and not self.phase.attempt)
        return cast("int | float", getattr(self.total if between_turns else self.total + self.usage, name))

    def exhausted_session(self) -> LimitKind | None:
        """Return the session's budget that prevents another model call, or None."""
        limits = self.setup.config.limits
        spent = (
            name for name in self.setup.budgets if name in OF_SESSION and self._used(name) >= getattr(limits, name)
        )
        return next(spent, None)

    def most_output(self) -> int | None:
        """Return the tokens that the budgets leave for a reply, if these are fewer than it could have anyway."""
        return self._fewer_tokens(self.setup.config.options.max_tokens, self.prompt_tokens())

    def _fewer_tokens(self, most: int | None, prompt: float) -> int | None:
        setup, limit = self.setup, self.tightest_output()
        if limit is None or setup.config.edition == 1:
            return None
        if most is None:  # a server may refuse what its context has no room for
            most = max(setup.config.context_tokens - int(prompt), setup.config.context_tokens - setup.budget)
        left = int(getattr(setup.config.limits, limit) - self._used(limit))
        return max(left, 1) if left < most else None

    def tightest_output(self) -> Budget | None:
        """Return the budget that leaves the fewest tokens for a reply, or None."""
        limits = self.setup.config.limits
        names = [name for name in OUTPUT_BUDGETS if name in self.setup.budgets]
        return min(names, key=lambda name: getattr(limits, name) - self._used(name), default=None)

    def overdrawn(self, *, cut: bool) -> LimitKind | None:
        """Return the budget of tokens or cost that a reply has overdrawn, or that cut it; edition 1 has none.

        Args:
            cut: whether the reply was cut at its token limit.
        """
        limits = self.setup.config.limits
        if self.setup.config.edition == 1:
            return None
        for name in self.setup.budgets:
            over = 0.0 if name == "seconds" else self._used(name) - getattr(limits, name)
            if over > 0 or (over == 0 and cut and name in OUTPUT_BUDGETS):
                return name
        return None

    def seconds_left(self, now: float) -> float | None:
        seconds = self.setup.config.limits.seconds
        if seconds is None:
            return None
        return min(max(0.0, seconds - (now - self.started_at)), seconds)  # whatever clocks say, NaN included

    def limit_detail(self, limit: LimitKind) -> str:
        if limit == "loop":
            config = self.setup.config
            if config.edition == 1:
                return "the same calls were repeated"
            return f"the same calls gave the same results {config.limits.repeats} times in a row"
        value = getattr(self.setup.config.limits, limit)
        return f"the limit of {value:g} {limit.replace('_', ' ')} is reached"

    def stop_at(self, limit: LimitKind, text: str = "") -> None:
        """End the turn at a limit, with ``text`` as the partial reply."""
        self.decide(LimitHit(limit, self.limit_detail(limit)))
        self.finish(LimitReached(limit, text))

    def stop_truncated(self, detail: str, text: str) -> None:
        """End the turn at a reply cut at its token limit, with ``text`` as the partial reply."""
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
            self._seal_spent(),
            Window(self.first, self.size, self.scale, self.cuts, self.summary, self.turns, self.slack),
            self.remembered,
            self.total,
            self.mode,
            self.resume_mode,
            self.tasks,
            self.plan,
            self.returns,
            self.system,
            self.briefing,
            self.costs,
            self.model,
            self.health,
        )
        return Transition(state, tuple(self.decisions))

    def _seal_spent(self) -> Spent:
        """Return the turn's usage, reusing the incoming value if unchanged: a new value takes three times as long as
        comparing.
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
            and self.given_up == spent.given_up
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
            self.given_up,
        )
