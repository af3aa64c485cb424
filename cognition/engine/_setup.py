"""Values that an engine derives from its configuration once, for all of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from attrs import evolve

from cognition.context.cut_note import CutNote, note_for
from cognition.context.sections import insert_briefing, with_standing
from cognition.context.summaries import summary_budget, summary_options
from cognition.context.token_counts import fixed_tokens
from cognition.context.window import changed_size, fixed_size, longest_prompt, prompt_budget, result_limit
from cognition.parsing.text_protocol import append_instructions, describe_tools
from cognition.steps.config import AgentConfig, GenerationOptions
from cognition.steps.engine_tools import SPAWN_WORKER
from cognition.steps.requests import ModelRequest, Purpose
from cognition.steps.state import AgentState
from cognition.steps.vocabulary import engine_tools, own_name
from cognition.values.candidates import Briefing
from cognition.values.counts import TemplateCosts
from cognition.values.history import History
from cognition.values.messages import Message, ToolCall
from cognition.values.tools import ToolSpec

Budget = Literal[
    "input_tokens",
    "output_tokens",
    "cost",
    "session_input_tokens",
    "session_output_tokens",
    "session_cost",
    "seconds",
]
"""The limits on model calls' usage, in the order of checking; most programs set none."""
BUDGETS: tuple[Budget, ...] = get_args(Budget)


class Setup:
    """A configuration and the values derived from it: shared by all steps of an engine, never changed."""

    __slots__ = (
        "asks",
        "beside",
        "budget",
        "budgets",
        "config",
        "engine_tools",
        "fixed",
        "full",
        "longest",
        "note",
        "offered",
        "polling",
        "prefix_options",
        "prompt",
        "result_limit",
        "result_limits",
        "summary_options",
        "summary_room",
        "tool_instructions",
        "tools",
    )

    def __init__(self, config: AgentConfig) -> None:
        self.config: AgentConfig = config
        self.asks: Callable[[ToolCall, AgentState], bool] | None = None
        """A custom engine's additional approval check; None without one."""
        self.offered: tuple[ToolSpec, ...] = config.offered
        self.engine_tools: dict[str, str] = {
            tool.name: own_name(tool.name, config.names) for tool in engine_tools(config.features, config.names)
        }
        """The tools that the engine itself executes: their offered names, each with our name."""
        self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in self.offered}
        workers = [name for name, ours in self.engine_tools.items() if ours == SPAWN_WORKER.name]
        self.beside: frozenset[str] = frozenset([*(tool.name for tool in self.offered if tool.runs_beside), *workers])
        """Tools that may run in parallel with their neighbours: they are declared so, or are workers with their own
        state.
        """
        self.polling: frozenset[str] = frozenset([tool.name for tool in self.offered if tool.polls])
        self.prompt: str = config.prompt
        self.tool_instructions: str = describe_tools(config.protocol, config.offered)
        self.fixed: float = fixed_size(config)
        self.budget: int = prompt_budget(config)
        self.longest: int = self.budget if config.edition == 1 else longest_prompt(config)
        """Tokens of a prompt that fits in no other way."""
        self.full: float = self.budget if config.compact_at is None else self.budget * config.compact_at
        """Tokens of a prompt beyond which the engine reduces its size."""
        self.summary_options: GenerationOptions = summary_options(config)
        own = "none" if config.options.tool_choice == "none" else "auto"
        self.prefix_options: GenerationOptions = evolve(self.summary_options, tool_choice=own)
        """Options of a summary behind the conversation's prompt: a prompt without a choice of tools shows none."""
        self.summary_room: int = summary_budget(config)
        self.result_limit: int = result_limit(config)
        self.result_limits: dict[str, int] = {
            tool.name: tool.output_limit for tool in config.tools if tool.output_limit is not None
        }
        self.note: CutNote = note_for(config)
        self.budgets: tuple[Budget, ...] = tuple([name for name in BUDGETS if getattr(config.limits, name) is not None])

    def request(
        self,
        messages: History,
        purpose: Purpose,
        *,
        called: bool = False,
        returns: str = "",
        system: str | None = None,
        briefing: Briefing | None = None,
        most: int | None = None,
    ) -> ModelRequest:
        """Return the request for one model call with these messages; without tools for a final answer.

        Args:
            called: the turn already made calls, so ``tool_choice`` forces no further call.
            returns: the schema of the turn's answer, as in ``AgentState``.
            system: the prompt in place of the configured prompt, as in ``AgentState``.
            briefing: the turn's sections.
            most: the most tokens of the reply, if the turn leaves fewer than the configuration.
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
        if most is not None:
            options = evolve(options, max_tokens=most)
        tools = () if final or config.protocol != "native" else self.offered
        prompt = self.prompt if system is None else append_instructions(system, self.tool_instructions)
        if briefing is not None:
            prompt, messages = with_standing(prompt, briefing), insert_briefing(messages, briefing)
        return ModelRequest(prompt, messages, tools, options, config.protocol)

    def summary_request(self, message: Message, prompt: str, most: int | None = None) -> ModelRequest:
        """Return the request for a summary: one message, without tools. ``most`` as in ``request``."""
        options = self.summary_options if most is None else evolve(self.summary_options, max_tokens=most)
        return ModelRequest(prompt, History((message,)), (), options, self.config.protocol)

    def prefix_request(self, messages: History, prompt: str, most: int | None = None) -> ModelRequest:
        """Return the request for a summary behind the conversation's prompt, with its tools. ``most`` as in
        ``request``.
        """
        options = self.prefix_options if most is None else evolve(self.prefix_options, max_tokens=most)
        tools = () if self.config.protocol != "native" else self.offered
        return ModelRequest(prompt, messages, tools, options, self.config.protocol)

    def system_with(self, system: str | None, briefing: Briefing | None) -> str:
        """Return the system prompt of a request; arguments as in ``request``."""
        return with_standing(
            self.prompt if system is None else append_instructions(system, self.tool_instructions), briefing
        )

    def fixed_size_with(self, system: str | None, costs: TemplateCosts | None) -> float:
        """Return the tokens before the messages, with ``system`` as in ``request``: an upper bound with ``costs``,
        else an estimate.
        """
        estimate = changed_size(self.fixed, self.config, system)
        return estimate if costs is None else fixed_tokens(costs, estimate)

    def note_with(self, costs: TemplateCosts | None) -> CutNote:
        """Return the note to the model about omitted text of a result."""
        if costs is None:
            return self.note
        skipped, reply, call = costs.skipped, costs.reply, costs.call
        return evolve(self.note, tokens=costs.cut, user=costs.user, skipped=skipped, reply=reply, call=call)


@lru_cache(maxsize=64)
def _options(options: GenerationOptions, choice: str, returns: str) -> GenerationOptions:
    """Return options for one request. Equal options are the same object, so a journal detects that nothing changed."""
    if not returns:
        return evolve(options, tool_choice=choice)
    return evolve(options, tool_choice=choice, response_format=returns, response_checked=True)
