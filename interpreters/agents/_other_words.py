"""What other frameworks call the options of an agent and the parts of a result, and the names here.

Sources: the arguments and attributes of the OpenAI Agents SDK, pydantic-ai, LangChain and LangGraph, LlamaIndex,
smolagents, CrewAI, AutoGen, Agno and Google ADK. Without this table an unknown word is compared by its letters, and
``instructions`` would lead to ``sections``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cognition import ConfigError
from cognition.base.display import shown_name
from interpreters.agents.options import AgentOptions, declared_options

SYSTEM = "system= is the system prompt"
RETURNS = "returns= of run is the type of the answer: agent.run(text, returns=City).value"
STEPS = "limits=Limits(steps=...) bounds the model calls of a turn"
HISTORY = (
    "an agent keeps its own conversation; to begin with another one, pass "
    "state=import_messages([...]).state, or the state of an earlier agent"
)
OBSERVERS = "observers=[function] receives every event, and hooks= may change or stop a step"
JOURNAL = 'journal="session.jsonl" records the session, and Agent.resume continues it'
STREAM = "agent.stream(text) gives the events of a turn as they arrive"
SESSION = "session= is the name of the session"
APPROVE = "approve=function answers calls that ask: those of tools with approval=True, and of the policy's rules"
WORKERS = 'features=["workers"] lets the model start workers, and a tool may run another agent'
GUARDS = "policy= decides on calls, and hooks= check messages, calls and answers"
DEPS = "deps= is passed to your tools as ToolContext.deps, and has no declared type"
TOOLS = "tools= is a list of functions"
MODEL = "model= is a loaded model: Agent(load_model(...))"
SERVER = "it belongs to the model: load_model(..., backends=[Backend(...)])"
SAMPLING = "options=GenerationOptions(...) sets how replies are sampled"
MCP = "tools= takes those of MCP servers: MCPServers([...]).tools()"
VERBOSE = "observers=[print] prints every event"
MEMORY = 'memory=Notes("notes.db") with features=["memory"] keeps notes'
RETRIES = (
    "retry=RetryPolicy(attempts=...) is for model calls, limits=Limits(corrections=...) for answers, and "
    "@tool(retries=...) for tools"
)

_WORDS: Mapping[str, tuple[str, ...]] = {
    SYSTEM: (
        *("instructions", "instruction", "system_prompt", "system_message", "prompt", "developer_message"),
        *("role", "goal", "backstory", "description", "state_modifier", "message_modifier", "sys_prompt"),
    ),
    RETURNS: (
        *("output_type", "result_type", "response_model", "output_schema", "output_model", "output_pydantic"),
        *("response_schema", "structured_output"),
    ),
    STEPS: ("max_turns", "max_iterations", "max_steps", "max_iter", "recursion_limit", "max_tool_iterations"),
    HISTORY: (
        *("message_history", "messages", "history", "chat_history", "initial_messages", "input_items"),
        *("previous_response_id", "conversation"),
    ),
    OBSERVERS: (
        *("callbacks", "callback", "callback_manager", "event_handler", "event_handlers", "event_stream_handler"),
        *("on_event", "step_callback", "step_callbacks", "handlers", "listeners"),
    ),
    JOURNAL: ("checkpointer", "checkpoint", "saver", "db", "database", "session_service", "persistence"),
    STREAM: ("stream", "streaming", "stream_mode", "stream_intermediate_steps"),
    SESSION: ("session_id", "thread_id", "conversation_id", "run_id", "name"),
    APPROVE: (
        *("interrupt_before", "interrupt_after", "interrupt_on", "human_in_the_loop", "human_input_mode"),
        *("require_approval", "permission_mode", "can_use_tool"),
    ),
    WORKERS: ("handoffs", "handoff", "sub_agents", "subagents", "managed_agents", "agents", "members"),
    GUARDS: ("guardrails", "guardrail", "input_guardrails", "output_guardrails", "middleware", "validators"),
    DEPS: ("deps_type", "dependencies", "context_type", "context_schema", "run_context", "user_data"),
    TOOLS: ("tool", "functions", "function_map", "toolset", "toolsets", "toolkits", "builtin_tools"),
    MODEL: ("llm", "model_name", "model_id", "model_client", "client", "chat_model", "language_model"),
    SERVER: ("api_key", "base_url", "api_base", "provider", "organization"),
    SAMPLING: ("model_settings", "generation_config", "llm_config", "sampling", "model_kwargs", "generate_kwargs"),
    MCP: ("mcp_servers", "mcp", "mcp_config", "mcp_tools"),
    VERBOSE: ("verbose", "debug", "debug_mode", "verbosity_level", "show_tool_calls"),
    MEMORY: ("memory_store", "memory_service", "store", "vector_store", "long_term_memory"),
    RETRIES: ("retries", "max_retries", "output_retries", "result_retries", "tool_retries"),
    "limits=Limits(...) has the budgets of a turn": ("usage_limits", "budget", "max_budget", "max_cost"),
    "limits=Limits(seconds=...) bounds the time of a turn": (
        *("timeout", "max_time", "max_execution_time", "max_seconds", "request_timeout"),
    ),
    "observers=[Tracing()] makes OpenTelemetry spans": ("tracing", "instrument", "tracer", "telemetry", "trace"),
    "context=[function] adds texts to a prompt": ("knowledge", "knowledge_base", "retriever", "context_providers"),
}

OPTIONS: Mapping[str, str] = {word: ours for ours, words in _WORDS.items() for word in words}
"""The meaning here of an option's name elsewhere, as the end of a sentence."""

TEXT = "result.text is the answer as text, and result.value with returns= as a value"

RESULTS: Mapping[str, str] = {
    "value": "the turn had no returns=: run(text, returns=City) reads an answer into a value, and result.text is its "
    "text",
    **dict.fromkeys(
        (
            *("output", "data", "final_output", "content", "answer", "message", "response", "output_text", "reply"),
            *("raw", "parsed", "structured_output", "structured_response"),
        ),
        TEXT,
    ),
    **dict.fromkeys(("new_messages", "all_messages", "history"), "result.messages has those of this turn"),
    **dict.fromkeys(("tool_calls", "tools", "steps", "new_items"), "result.calls has the calls of this turn"),
    **dict.fromkeys(
        ("error", "status", "finish_reason", "stop_reason", "success"), "result.outcome tells how it ended"
    ),
    **dict.fromkeys(("cost", "tokens", "total_tokens"), "result.usage has it"),
    **dict.fromkeys(("interruptions", "interrupt", "requires_action"), "result.pending has what waits for an answer"),
}
"""The meaning here of a result's attribute elsewhere."""


def explain_options(owner: str, unknown: Iterable[str], tools: object = ()) -> None:
    """Raise ConfigError if a word of another framework is among the arguments, or ``tools`` is no list of functions.

    Args:
        owner: the class or method that was called.
        unknown: the names of the arguments that it doesn't have.
        tools: the argument ``tools``.
    """
    for name in unknown:
        if name in OPTIONS:
            raise ConfigError(f"{owner} has no option {shown_name(name)!r}; {OPTIONS[name]}")
    if message := _explain_tools(tools):
        raise ConfigError(f"{owner}: {message}")


def unknown_option(method: str, unknown: Mapping[str, Any]) -> ConfigError:
    """Return the error about unknown arguments of ``run`` or ``stream``, such as ``Agent.run``."""
    name = next(iter(unknown))
    if name in declared_options(AgentOptions) or name in ("model", "tools", "system"):
        return ConfigError(f"{method} has no option {name!r}; the agent takes it: Agent(..., {name}=...)")
    told = f"; {OPTIONS[name]}" if name in OPTIONS else "; there are text and returns"
    return ConfigError(f"{method} has no option {shown_name(name)!r}{told}")


def _explain_tools(tools: object) -> str:
    """Return what is wrong with tools that are no list, or that are described in another form; empty if nothing."""
    from interpreters.tools.tool import Tool

    if isinstance(tools, Tool) or (callable(tools) and not isinstance(tools, Iterable)):
        name = tools.spec.name if isinstance(tools, Tool) else getattr(tools, "__name__", "")
        return f"tools must be a list; write tools=[{name if name.isidentifier() else 'function'}]"
    if isinstance(tools, str):
        return _explain_name(tools, "tools")
    if isinstance(tools, Mapping):
        return "tools must be a list; its functions bring their own names: tools=[function, other]"
    for place, one in enumerate(tools if isinstance(tools, list | tuple) else ()):
        where = f"tools[{place}]"
        if isinstance(one, str):
            return _explain_name(one, where)
        if isinstance(one, Mapping):
            return (
                f"{where} is a description, not a function; pass the function, whose signature and docstring describe "
                "it, or ToolSpec(name, description, parameters) if your program answers the calls"
            )
    return ""


def _explain_name(name: str, where: str) -> str:
    return (
        f"{where} is the name {shown_name(name)!r}; pass the function itself. file_tools(root) and shell_tools(root) "
        "give those that ship"
    )
