"""The options of a session apart from its model, tools and system prompt: each declared once, with its default.

Type checkers read the classes below, ``runtime.checking`` checks the caller's values against them, and ``fill`` adds
the defaults. ``help(Agent)`` and docs/reference/options.md print them. An option that applies both to ``Agent`` and to
hosted sessions is declared once.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypedDict, TypeVar, cast, get_args, get_type_hints

from attrs import frozen

from cognition import (
    AgentConfig,
    AgentState,
    CognitiveEngine,
    GenerationOptions,
    Limits,
    LLMEngine,
    Policy,
    RetryPolicy,
    Section,
)
from cognition.parsing.text_protocol import TextProtocol
from cognition.steps.decisions import Effect
from cognition.values.features import Feature, Vocabulary
from cognition.values.routing import Breaker, ModelTask
from interpreters.loop.clock import Clock
from interpreters.loop.program.approvals import Approve
from interpreters.loop.program.message_sources import ContextFunction
from interpreters.loop.program.program import WORKER_PATIENCE
from interpreters.loop.program.questions import AskQuestions, Hooks, ReviewPlans
from interpreters.observing.events import Observer
from interpreters.recording.journal import Fsync
from interpreters.recording.recorder import Where
from interpreters.recording.redaction import Redaction
from runtime.protocol.model import Runtime
from runtime.stores.notes import Memory


@frozen(eq=False)
class Option:
    """An option's default, and its meaning."""

    default: Any
    meaning: str


EngineFactory = Callable[[AgentConfig], CognitiveEngine]

NONE: Mapping[Any, Any] = MappingProxyType({})


class RuntimeOptions(TypedDict, total=False):
    """How a session is carried out, wherever it runs. These options are not recorded and may change at each resume."""

    approve: Annotated[
        Approve | None, Option(None, "Your answer to calls that need an approval. Without it they are refused.")
    ]
    ask: Annotated[
        AskQuestions | None,
        Option(None, "Answers the model's questions to your user; the feature `questions` needs it."),
    ]
    review: Annotated[ReviewPlans | None, Option(None, "Judges the model's plans; the feature `plan` needs it.")]
    hooks: Annotated[Hooks, Option(NONE, "Your functions, by the point of the turn at which they are called.")]
    context: Annotated[
        Iterable[ContextFunction],
        Option(
            (),
            "Functions that return, for each message of your user, the `Candidate`s for sections of the prompt "
            "(`docs/guides/context-sources.md`). `ContextFiles` is one.",
        ),
    ]
    observers: Annotated[Iterable[Observer], Option((), "Functions that receive every event.")]
    deps: Annotated[Any, Option(None, "Passed to your tools as `ToolContext.deps`.")]
    worker_patience: Annotated[
        float | None,
        Option(
            WORKER_PATIENCE,
            "Seconds without a sign of life before a worker counts as stalled; None waits forever.",
        ),
    ]
    performers: Annotated[
        Mapping[type[Effect], Callable[..., Any]],
        Option(
            NONE,
            "Your functions `(effect, scope) -> input` that replace the usual performers, by effect type.",
        ),
    ]
    fsync: Annotated[
        Fsync,
        Option("turn", "When your recording is forced to the disk: at every `record`, at every `turn`, or `never`."),
    ]
    redact: Annotated[
        Redaction | None,
        Option(
            Redaction(),
            "The texts to hide from your recording: by default those that look like secrets. None: hide nothing.",
        ),
    ]


class ConfigOptions(TypedDict, total=False):
    """The settings of a new session. They are recorded and stay the same at a resume."""

    options: Annotated[GenerationOptions | None, Option(None, "How replies are sampled. None: `GenerationOptions()`.")]
    limits: Annotated[Limits | None, Option(None, "The budgets of a turn. None: `Limits()`.")]
    policy: Annotated[Policy | None, Option(None, "Your rules on calls. None: `Policy()`, which allows all of them.")]
    retry: Annotated[RetryPolicy | None, Option(None, "When to retry failed model calls. None: `RetryPolicy()`.")]
    context_tokens: Annotated[
        int | None, Option(None, "The context to use, in tokens, if you want less than the model has. None: all of it.")
    ]
    features: Annotated[
        Iterable[Feature],
        Option(
            (), "The agent's abilities in addition to your tools: `questions`, `tasks`, `plan`, `memory`, `workers`."
        ),
    ]
    names: Annotated[
        Vocabulary,
        Option(
            "cogstep",
            "The names of the features' tools: cogstep's own, or with `claude` those that models know.",
        ),
    ]
    protocol: Annotated[
        TextProtocol | None,
        Option(
            None,
            "How the model writes calls (`docs/guides/text-protocols.md`). None: natively; if its template has no "
            "place for tools, you get `tool_tags` and a warning.",
        ),
    ]
    recall_first: Annotated[
        bool, Option(False, "Whether to search the notes for each message of your user before the model call.")
    ]
    compact_at: Annotated[
        float | None,
        Option(
            0.75,
            "The model summarises older messages beyond this share of the prompt's budget "
            "(`docs/concepts/context.md`). None: never.",
        ),
    ]

    sections: Annotated[
        Iterable[Section] | None,
        Option(None, "The parts of the prompt for your candidates. None: `DEFAULT_SECTIONS`."),
    ]


class NewSessionOptions(ConfigOptions, total=False):
    """The settings of a new session, and the place of its recording."""

    journal: Annotated[
        Where | None,
        Option(None, "The file of your recording, or a `Recorder`; it must be empty. None: no recording."),
    ]


class ProgramOptions(RuntimeOptions, total=False):
    """Options of `Agent.resume` and `AsyncAgent.resume`, in addition to the recording, the model and the tools."""

    memory: Annotated[
        Memory | None,
        Option(None, "The store of the model's notes; the feature `memory` and `recall_first` need it."),
    ]
    models: Annotated[
        Mapping[str, Runtime],
        Option(
            NONE,
            "Other models by name, for `fallback`, `routes` and `use_model`. You close them yourself.",
        ),
    ]
    owns_model: Annotated[
        bool | None,
        Option(
            None,
            "Whether to close the model with the agent. None: no, since you may continue to use it. A "
            "`fakes.ScriptedModel` is closed, and then counts its replies.",
        ),
    ]
    raise_tool_errors: Annotated[
        bool,
        Option(
            False,
            "For your tests: whether `run` raises the exceptions of tools. If not, they are logged and sent to the "
            "model.",
        ),
    ]
    clock: Annotated[Clock | None, Option(None, "The source of time. In your tests, pass a `fakes.FakeClock`.")]
    engine: Annotated[EngineFactory, Option(LLMEngine, "Creates the agent's logic from its configuration.")]


class RoutingOptions(TypedDict, total=False):
    """Which of an agent's models is called. These options are recorded and stay the same at a resume."""

    fallback: Annotated[
        Iterable[str],
        Option(
            (),
            "The names in `models` to call if the one before fails, in your order "
            '(`docs/guides/several-models.md`). `""` is the agent\'s own.',
        ),
    ]
    routes: Annotated[
        Mapping[ModelTask, str],
        Option(
            NONE,
            "The name in `models` to call first for a task: `answer`, `plan` (in the mode `plan`), `summary`, "
            "`worker`.",
        ),
    ]
    breaker: Annotated[
        Breaker | None,
        Option(None, "When to stop calling a failing model for a while. None: `Breaker()`."),
    ]


class AgentOptions(ProgramOptions, NewSessionOptions, RoutingOptions, total=False):
    """Options of `Agent`, `AsyncAgent` and their `fork`, in addition to the model, the tools and the system prompt."""

    session: Annotated[str | None, Option(None, "The name of your session. None: a random one.")]
    state: Annotated[
        AgentState | None,
        Option(None, "The state to continue from: your copy of `agent.state`, or a result of `import_messages`."),
    ]


class HandleOptions(RuntimeOptions, ConfigOptions, total=False):
    """Options of `AgentHost.open`, in addition to the session's name, its tools and its system prompt."""

    notes: Annotated[
        str,
        Option(
            "", "The file of the model's notes, on the host's side; with `:memory:` they last as long as your session."
        ),
    ]
    tool_wait: Annotated[
        float | None,
        Option(300.0, "Seconds until a call without your result fails; None waits forever."),
    ]
    window: Annotated[
        int | None,
        Option(256, "Unread events of a turn before the session waits for you to read. None: any number."),
    ]
    journal: Annotated[
        str | os.PathLike[str] | None,
        Option(None, "The file of your recording, on the host's side. None: no recording."),
    ]
    resume: Annotated[bool, Option(False, "Whether to continue your session that is recorded in `journal`.")]


Options = TypeVar("Options", ProgramOptions, AgentOptions, HandleOptions)

CONFIGURED = tuple(ConfigOptions.__annotations__)
"""The options that are fields of ``AgentConfig`` with the same name."""

USUAL = AgentConfig()
"""The values that replace None; immutable, and shared by all sessions."""


def config_fields(full: Any) -> dict[str, Any]:
    """Return the ``AgentConfig`` fields set by options; ``full`` contains all options with their defaults."""
    fields = {name: getattr(USUAL, name) if full[name] is None else full[name] for name in CONFIGURED}
    return {**fields, "features": tuple(full["features"]), "sections": tuple(fields["sections"])}


def routing_fields(full: AgentOptions) -> dict[str, Any]:
    """Return the ``AgentConfig`` fields set by the options for several models."""
    models = full["models"]
    if not models and not full["fallback"] and not full["routes"]:
        return {}
    return {
        "models": tuple(models),
        "fallback": tuple(full["fallback"]),
        "routes": tuple(full["routes"].items()),
        "breaker": full["breaker"] or USUAL.breaker,
    }


@cache  # reading type hints is slow
def declared_options(kind: type) -> Mapping[str, Option]:
    """Return the options declared by one of the classes above, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items()}


def format_help(kind: type) -> str:
    """Return the options as a section of a docstring."""
    return "\n".join(
        textwrap.fill(
            f"{name}: {one.meaning}", 110, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
        )
        for name, one in declared_options(kind).items()
    )


def fill(given: Options, kind: type[Options]) -> Options:
    return cast(Options, {**{name: one.default for name, one in declared_options(cast(type, kind)).items()}, **given})
