"""Assembles the parts of a session from the caller's arguments, for both ``Agent`` and ``AsyncAgent``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from secrets import token_hex
from typing import Any, Final

from attrs import evolve, fields_dict, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CognitiveEngine,
    ConfigError,
    GenerationOptions,
    LLMEngine,
    ToolSpec,
    UserMessage,
    UserSpoke,
)
from cognition.base.checking import nearest
from cognition.base.display import shown_name
from cognition.parsing.text_protocol import TextProtocol
from cognition.steps.vocabulary import engine_tools
from cognition.values.features import HookPoint
from interpreters.agents._state_restore import check_state
from interpreters.agents.options import AgentOptions, ProgramOptions, config_fields, fill, routing_fields
from interpreters.agents.structured_answers import answer_type
from interpreters.loop.program.message_content import Content, content_of
from interpreters.loop.program.message_sources import PromptFunction, PromptSource, prompt_source
from interpreters.loop.program.program import Program
from interpreters.recording.episodes import hide_secrets
from interpreters.recording.journal import Journal, Origin
from interpreters.recording.redactor import RedactionNote, Redactor
from interpreters.tools.external import Usable, as_tools
from interpreters.tools.tool import Tool
from runtime.constrained.nodes import Weakened
from runtime.constrained.replies import weakened_tools
from runtime.constrained.schema import read_checked, read_schema
from runtime.protocol.model import Runtime
from runtime.protocol.sampling import with_own

USED_WITHOUT_TOOLS: Final = "tool_tags"
"""The protocol for models whose template does not support tools: an answer in it is plain text."""

PLAIN = (str, int, bool, type(None))
"""Types compared by value; all other objects are equal only if identical."""


_NEWEST_CONFIG: list[tuple[tuple[object, ...], AgentConfig]] = []
_NEWEST_ENGINE: list[LLMEngine] = []
"""The newest configuration, with what it was made of, and the newest engine, for sessions that start with the same
options: a server starts thousands, and these two parts take a third of a session's start. Both are immutable. At most
one entry each. It is replaced in a single operation, since sessions start on any thread.
"""

NO_TYPE: Any = object()
"""Marks a missing ``returns``, since None is a valid type."""

REPLY_SHARE = 4
"""Without ``max_tokens``, prompts leave 1/4 of the context free for the reply: reasoning models need much."""

BROUGHT = frozenset(fields_dict(Program))
"""Names of the options that are fields of ``Program``."""


@frozen(eq=False)
class Parts:
    config: AgentConfig
    engine: CognitiveEngine
    program: Program
    journal: Journal | None
    given: ProgramOptions
    """All options with their defaults."""
    start: AgentState | None
    """The state the session starts from; None for a new session."""
    weakened: Mapping[str, tuple[Weakened, ...]]
    """For each tool, the parts of its schema that sampling can't enforce; calls are checked against them afterwards."""
    warnings: tuple[str, ...]
    """Possible mistakes that are not errors, one sentence each."""


def assemble(
    model: Runtime,
    tools: Iterable[Usable],
    system: str | PromptFunction,
    given: AgentOptions,
    *,
    start: AgentState | None = None,
    origin: Origin | None = None,
    redactor: Redactor | None = None,
    recorded_system: str = "",
) -> Parts:
    """Return the parts of a new session; a fork passes ``start``, ``origin``, ``redactor`` and ``recorded_system``.

    Raises:
        ConfigError: the configuration or the given state is inconsistent.
        JournalError: the recording can't be started.
    """
    tools = as_tools(tools)
    given = fill(given, AgentOptions)
    kept = given["state"]
    if kept is not None:
        check_state(kept)
        if isinstance(system, str) and system:  # in place of what a function has made before
            kept = evolve(kept, system=None)
    system, made = (system, None) if isinstance(system, str) else (recorded_system, prompt_source(system))
    fields = {**config_fields(given), **routing_fields(given)}
    info = model.describe()
    if given["context_tokens"] is None:  # a request has to fit whichever of them is called
        others = [other.describe().context_tokens for other in given["models"].values()]
        fields["context_tokens"] = min([info.context_tokens, *others])
    # What the model's files say is recorded with what the program says, so that it is known what was used. Of several
    # models each has its own, and what one's files say may be refused by another.
    if not given["models"]:
        fields["options"] = with_own(fields["options"], info.sampling)
    fields["reply_tokens"] = max(1, fields["context_tokens"] // REPLY_SHARE)
    warning = ""
    if given["protocol"] is None:
        any_tools = bool(tools or engine_tools(fields["features"]))
        fields["protocol"], warning = choose_protocol(model, any_tools, fields["options"])
    config = config_of(system, tuple([tool.spec for tool in tools]), tuple(given["hooks"]), fields)
    check_prices(config, (model, *given["models"].values()))
    for tool in tools:  # what can't be checked or sampled is better known now than at a call
        tool.prepare()
    weakened = find_weakened(config, model)
    if config.options.constrain and config.options.response_format:
        read = read_checked if config.options.response_checked else read_schema
        read(json.loads(config.options.response_format), "the response_format")
    for name, meant in (("session", "a name is drawn"), ("journal", "nothing is recorded")):
        if given[name] == "":  # type: ignore[literal-required]  # both are names of options
            raise ConfigError(f"{name} is empty: give a name, or leave it out, and {meant}")
    program = make_program(model, tools, given["session"] or token_hex(16), given, made)
    path = given["journal"]
    redacted: tuple[RedactionNote, ...] = ()
    if path is not None:  # what is recorded is what the engine works with
        redactor = redactor or make_redactor(given, tools)
        config, redacted = redactor.hide(config)
        if kept is not None:  # a placeholder in it is a text like any other: nobody gets a secret by writing one
            kept = redactor.hide(kept)[0]
        program = evolve(program, reveal=redactor.reveal)
    engine = engine_of(program, config)
    start = kept if start is None else start
    if start is not None and start.model not in (None, "", *config.models):  # chosen of models that this agent hasn't
        start = evolve(start, model=None)
    journal = None
    if path is not None:
        program.check(engine)  # before the recording begins: no file is left behind by a mistake
        clock = given["clock"]
        journal = Journal.create(
            path,
            session=program.session,
            engine=engine,
            config=config,
            fsync=given["fsync"],
            created=None if clock is None else clock.time(),
            start=start,
            origin=origin,
            redacted=redacted,
        )
        journal.redactor = redactor
    return make_parts(config, engine, program, journal, given, start, weakened, warning)


def make_redactor(given: ProgramOptions, tools: Iterable[Tool[..., Any]], after: int = 0) -> Redactor:
    """Return the redactor that hides secrets from a recording, if placeholder numbers up to ``after`` are
    already used.
    """
    names = frozenset(tool.spec.name for tool in tools)
    return Redactor(fill(given, ProgramOptions)["redact"], after=after, keep=names)


def make_program(
    model: Runtime,
    tools: Iterable[Tool[..., Any]],
    session: str,
    full: ProgramOptions,
    system: PromptSource | None = None,
) -> Program:
    """Return the program with all values from the caller; ``full`` contains all options with their defaults."""
    brought: dict[str, Any] = {name: full[name] for name in BROUGHT if name in full}  # type: ignore[literal-required]  # names of options
    named = {tool.spec.name: tool for tool in tools}
    redact = full["redact"]
    hides = None if redact is None else partial(hide_secrets, redact=redact)
    brought.update(model=model, tools=named, session=session, system=system, hides=hides)
    return Program(**brought)


def make_parts(
    config: AgentConfig,
    engine: CognitiveEngine,
    program: Program,
    journal: Journal | None,
    full: ProgramOptions,
    start: AgentState | None,
    weakened: Mapping[str, tuple[Weakened, ...]],
    warning: str = "",
) -> Parts:
    unsealed = "" if journal is None else journal.warning
    untold = [unsupported_native(config, each) for each in (program.model, *program.models.values())]
    undescribed = _undescribed_tools(program.tools.values())
    warnings = tuple(filter(None, (warning, *_idle_rules(config), *undescribed, *untold, unsealed)))
    return Parts(config, engine, program, journal, full, start, weakened, warnings)


def check_prices(config: AgentConfig, models: Iterable[Runtime]) -> None:
    """Check that a limit on the cost can be kept.

    Raises:
        ConfigError: the costs of a model are unknown, and would count as 0.
    """
    limit = "session_cost" if config.limits.cost is None else "cost"
    most = getattr(config.limits, limit)
    if most is None:
        return
    for info in (model.describe() for model in models):
        if not info.priced:
            name = shown_name(info.name)
            raise ConfigError(
                f"Limits({limit}={most:g}) can't be kept: no price of the model {name!r} is known, so its "
                "cost would count as 0. Describe its server by a Backend with prices=, such as "
                f"prices={{{name!r}: Price(input=3, output=15)}} (Price() if it is free), or limit output_tokens= "
                "instead"
            )


def find_weakened(config: AgentConfig, model: Runtime) -> Mapping[str, tuple[Weakened, ...]]:
    """Return, for each tool, the parts of its schema that sampling can't enforce and that only the check covers.

    Raises:
        SchemaError: a tool's parameters are not a JSON Schema of an object.
    """
    offered = config.offered
    return weakened_tools(offered, model.describe().format) if offered and config.options.constrain else {}


def _undescribed_tools(tools: Iterable[Tool[..., Any]]) -> Iterator[str]:
    """Yield a warning for each function of the program without a docstring."""
    for tool in tools:
        if type(tool) is Tool and not tool.spec.description.strip():
            yield (
                f"the tool {tool.spec.name!r} has no description, so the model knows only its name and parameters: "
                "write a docstring, which is sent to the model"
            )


def _idle_rules(config: AgentConfig) -> Iterator[str]:
    """Yield a warning for each policy rule that matches no tool, as after a typo."""
    rules = config.policy.rules
    names = [tool.name for tool in config.offered] if rules else []
    for rule in rules:
        if rule.pattern.name and not any(map(rule.matches, names)):
            near = nearest(rule.pattern.name, names)
            yield f"a rule of the policy is for {rule.tool!r}, and no tool has such a name{near}"


def user_input(content: Content | UserSpoke, returns: Any = NO_TYPE) -> UserSpoke:
    """Return a user message as an engine input, with the schema of the answer.

    A ``UserSpoke`` (as hosts receive) is returned unchanged.

    Raises:
        ConfigError: ``returns`` has no JSON form.
    """
    if isinstance(content, UserSpoke):
        return content
    text, parts = content_of(content)
    return UserSpoke(text, "" if returns is NO_TYPE else answer_type(returns).schema, parts)


def start_of_turn(state: AgentState) -> int:
    """Return the index in the history of the newest user message, which starts the current turn."""
    for position in range(len(state.history) - 1, -1, -1):
        message = state.history[position]
        if isinstance(message, UserMessage) and message.origin == "user":
            return position
    return 0


def config_of(
    system: str, tools: tuple[ToolSpec, ...], hooks: tuple[HookPoint, ...], fields: Mapping[str, Any]
) -> AgentConfig:
    """Return the configuration for these values; ``fields`` contains its other fields by name.

    Raises:
        ConfigError: the values contradict each other.
    """
    parts = (system, tools, hooks, *fields, *fields.values())
    for made_of, config in _NEWEST_CONFIG:
        if _is_same(made_of, parts):
            return config
    config = AgentConfig(system, tools, hooks=hooks, **fields)
    _NEWEST_CONFIG[:] = [(parts, config)]
    return config


def engine_of(program: Program, config: AgentConfig) -> CognitiveEngine:
    """Return the program's engine for this configuration. A custom engine class is not cached."""
    if program.engine is not LLMEngine:
        return program.engine(config)
    for engine in _NEWEST_ENGINE:
        if engine.config is config:
            return engine
    engine = LLMEngine(config)
    _NEWEST_ENGINE[:] = [engine]
    return engine


def _is_same(one: object, other: object) -> bool:
    """Whether two cache keys are equal. Mutable containers never are: they may have changed since."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, PLAIN):
        return one == other
    return one is other and not isinstance(one, list | dict | set | bytearray)


def choose_protocol(model: Runtime, any_tools: bool, options: GenerationOptions) -> tuple[TextProtocol, str]:
    """Return the protocol of a session whose program sets none, and a warning if it is not the model's own.

    Args:
        model: the session's model.
        any_tools: whether the session offers any tools.
        options: how replies are sampled.

    Raises:
        ConfigError: a text protocol can't fulfil the options.
    """
    if not any_tools or options.tool_choice == "none":
        return "native", ""
    why = _explain_lack(model)
    if not why:
        return "native", ""
    if options.tool_choice != "auto" or options.response_format:
        raise ConfigError(
            f"{why}, so its calls are written as text, in which neither options.tool_choice nor response_format can be "
            "kept: leave them alone (returns= works), leave the tools out, or give load_model the template= of another "
            "model of its family"
        )
    return USED_WITHOUT_TOOLS, (
        f"{why}: they are told in the system prompt, and calls are written as text (protocol={USED_WITHOUT_TOOLS!r}); "
        "protocol= chooses how"
    )


def unsupported_native(config: AgentConfig, model: Runtime) -> str:
    """Return a warning if ``protocol="native"`` is set and the model does not support it, so that it never sees the
    tools.
    """
    if config.protocol != "native" or not config.offered or config.options.tool_choice == "none":
        return ""
    how = f"begin or fork the session with protocol={USED_WITHOUT_TOOLS!r}"
    why = _explain_lack(model)
    return f"{why}, and protocol='native' leaves them out; {how}" if why else ""


def _explain_lack(model: Runtime) -> str:
    """Return why a model is not offered tools: its template does not support them, or its calls can't be parsed.

    Empty if it is. A runtime that lists no features at all is assumed to support them. A model without a local file has
    no chat template here that could be blamed.
    """
    info = model.describe()
    if not info.features or "tools" in info.features:
        return ""
    whose = f"the chat template of {info.name!r}" if info.path else repr(info.name)
    return f"{whose} has no place for tools"
