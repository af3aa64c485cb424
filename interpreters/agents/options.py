"""The options of a session apart from its model, tools and system prompt: each declared once, with its default.

Type checkers read the classes below, ``runtime.checking`` checks the caller's values against them, and ``filled`` adds
the defaults. ``help(Agent)`` and docs/options.md print them. An option that applies both to ``Agent`` and to hosted
sessions is declared once.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
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
from interpreters.loop.program.context_sources import ContextFunction
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

NO_HOOKS: Hooks = MappingProxyType({})
NO_MODELS: Mapping[str, Runtime] = MappingProxyType({})
NO_ROUTES: Mapping[ModelTask, str] = MappingProxyType({})
NO_PERFORMERS: Mapping[type[Effect], Callable[..., Any]] = MappingProxyType({})


class Carrying(TypedDict, total=False):
    """How a session is carried out, wherever it runs. These options are not recorded and may change at each resume."""

    approve: Annotated[
        Approve | None, Option(None, "Asked for calls that need an approval. Without it they are refused.")
    ]
    ask: Annotated[
        AskQuestions | None,
        Option(None, "Answers the questions that the model has for the user; the feature `questions` needs it."),
    ]
    review: Annotated[ReviewPlans | None, Option(None, "Judges the plans of the model; the feature `plan` needs it.")]
    hooks: Annotated[Hooks, Option(NO_HOOKS, "Functions that are asked at the points that are their keys.")]
    context: Annotated[
        Iterable[ContextFunction],
        Option(
            (),
            "Functions that give, for each message of the user, the `Candidate`s that may stand in the prompt beside "
            "the conversation (`docs/guides/context-sources.md`), such as `WorkspaceFiles`.",
        ),
    ]
    observers: Annotated[Iterable[Observer], Option((), "Functions that are told of every event.")]
    deps: Annotated[Any, Option(None, "Handed to tools as `ToolContext.deps`.")]
    worker_patience: Annotated[
        float | None,
        Option(
            WORKER_PATIENCE,
            "Seconds without a sign of life after which a worker is given up; None waits for ever.",
        ),
    ]
    performers: Annotated[
        Mapping[type[Effect], Callable[..., Any]],
        Option(
            NO_PERFORMERS,
            "Functions `(effect, scope) -> input` that carry effects out in place of the usual ones, by effect type.",
        ),
    ]
    fsync: Annotated[
        Fsync,
        Option("turn", "When the recording is forced to the disk: at every `record`, at every `turn`, or `never`."),
    ]
    redact: Annotated[
        Redaction | None,
        Option(Redaction(), "What is kept out of the recording: by default what looks like a secret. None: nothing."),
    ]


class Configuring(TypedDict, total=False):
    """The settings of a new session. They are recorded and stay the same at a resume."""

    options: Annotated[GenerationOptions | None, Option(None, "How replies are sampled. None: `GenerationOptions()`.")]
    limits: Annotated[Limits | None, Option(None, "The budgets of a turn. None: `Limits()`.")]
    policy: Annotated[Policy | None, Option(None, "Which calls may run. None: `Policy()`, which allows all of them.")]
    retry: Annotated[RetryPolicy | None, Option(None, "When failed model calls are made again. None: `RetryPolicy()`.")]
    context_tokens: Annotated[
        int | None, Option(None, "For less context than the model has, in tokens. None: all that it has.")
    ]
    features: Annotated[
        Iterable[Feature],
        Option((), "What the agent may do beside calling tools: `questions`, `tasks`, `plan`, `memory`, `workers`."),
    ]
    names: Annotated[
        Vocabulary,
        Option(
            "cogstep",
            "What the tools of the features are called: by our names, or by those that models know: `claude`.",
        ),
    ]
    protocol: Annotated[
        TextProtocol | None,
        Option(
            None,
            "How the model writes calls (`docs/guides/text-protocols.md`). None: natively; if the template has no place "
            "for tools, as `tool_tags`, with a warning.",
        ),
    ]
    recall_first: Annotated[
        bool, Option(False, "Whether the notes are searched for each message of the user before the model is asked.")
    ]
    compact_at: Annotated[
        float | None,
        Option(
            0.75,
            "The share of the prompt's budget beyond which the model summarises older messages (`docs/context.md`). "
            "None: never.",
        ),
    ]

    sections: Annotated[
        Iterable[Section] | None,
        Option(None, "The parts of the prompt that candidates are chosen for. None: `DEFAULT_SECTIONS`."),
    ]


class Recording(Configuring, total=False):
    """The settings of a new session, and the place of its recording."""

    journal: Annotated[
        Where | None,
        Option(None, "The file of the recording, or a `Recorder`; nothing must be recorded there yet. None: none."),
    ]


class ProgramOptions(Carrying, total=False):
    """Options of `Agent.resume` and `AsyncAgent.resume`, in addition to the recording, the model and the tools."""

    memory: Annotated[
        Memory | None,
        Option(None, "Keeps the notes of the model; the feature `memory` and `recall_first` need it."),
    ]
    models: Annotated[
        Mapping[str, Runtime],
        Option(
            NO_MODELS,
            "Models beside the agent's own, by name, for `fallback`, `routes` and `use_model`. They are not closed "
            "with it.",
        ),
    ]
    owns_model: Annotated[
        bool | None,
        Option(
            None,
            "Whether the model is closed with the agent. None: it is not, since whoever made it may go on using it; "
            "but a `fakes.ScriptedModel` is, and counts its replies then.",
        ),
    ]
    raise_tool_errors: Annotated[
        bool,
        Option(
            False,
            "For tests: whether what a tool raises is raised by `run`. Else it is logged, and told to the model.",
        ),
    ]
    clock: Annotated[Clock | None, Option(None, "Where time comes from; tests give a `fakes.FakeClock`.")]
    engine: Annotated[EngineFactory, Option(LLMEngine, "Makes the agent's logic of its configuration.")]


class Routing(TypedDict, total=False):
    """Which of an agent's models is called. These options are recorded and stay the same at a resume."""

    fallback: Annotated[
        Iterable[str],
        Option(
            (),
            "Of `models`, those that are called where the one before fails, in this order (`docs/guides/several-models.md`). "
            '`""` is the agent\'s own.',
        ),
    ]
    routes: Annotated[
        Mapping[ModelTask, str],
        Option(
            NO_ROUTES,
            "For tasks, the one of `models` that is called first: `answer`, `plan` (in the mode `plan`), `summary`, "
            "`worker`.",
        ),
    ]
    breaker: Annotated[
        Breaker | None,
        Option(None, "When a model that fails is not called for a while. None: `Breaker()`."),
    ]


class AgentOptions(ProgramOptions, Recording, Routing, total=False):
    """Options of `Agent`, `AsyncAgent` and their `fork`, in addition to the model, the tools and the system prompt."""

    session: Annotated[str | None, Option(None, "The name of the session. None: a new one, drawn at random.")]
    state: Annotated[
        AgentState | None,
        Option(None, "Where the session stands at its beginning: what `agent.state` gave, or `import_messages`."),
    ]


class HandleOptions(Carrying, Configuring, total=False):
    """Options of `AgentHost.open`, in addition to the session's name, its tools and its system prompt."""

    notes: Annotated[
        str,
        Option("", "The file of the model's notes, on the host's side; `:memory:` keeps them as long as the session."),
    ]
    tool_wait: Annotated[
        float | None,
        Option(300.0, "Seconds after which a call that got no result has failed; None waits for ever."),
    ]
    window: Annotated[
        int | None,
        Option(256, "Events of a turn that may be unread before the session waits for the reader. None: any number."),
    ]
    journal: Annotated[
        str | os.PathLike[str] | None,
        Option(None, "The file of the recording, on the host's side. None: none."),
    ]
    resume: Annotated[bool, Option(False, "Whether to go on with the session that is recorded in `journal`.")]


Options = TypeVar("Options", ProgramOptions, AgentOptions, HandleOptions)

CONFIGURED = tuple(Configuring.__annotations__)
"""The options that are fields of ``AgentConfig`` with the same name."""

USUAL = AgentConfig()
"""The values that replace None; immutable, and shared by all sessions."""


def configured(full: Any) -> dict[str, Any]:
    """Return the ``AgentConfig`` fields set by options; ``full`` contains all options with their defaults."""
    fields = {name: usual if full[name] is None else full[name] for name, usual in _USUAL_FIELDS}
    return {**fields, "features": tuple(full["features"]), "sections": tuple(fields["sections"])}


def routed(full: AgentOptions) -> dict[str, Any]:
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


_USUAL_FIELDS: tuple[tuple[str, Any], ...] = tuple([(name, getattr(USUAL, name)) for name in CONFIGURED])
"""Computed once, since each session starts with them."""


def declared(kind: type) -> dict[str, Option]:
    """Return the options declared by one of the classes above, in their order."""
    if kind not in _DECLARED:
        hints = get_type_hints(kind, include_extras=True)
        _DECLARED[kind] = {name: get_args(hint)[1] for name, hint in hints.items()}
    return _DECLARED[kind]


_DECLARED: dict[type, dict[str, Option]] = {}
"""A cache: reading type hints is slow."""


def as_help(kind: type) -> str:
    """Return the options as a section of a docstring."""
    return "\n".join(
        textwrap.fill(
            f"{name}: {one.meaning}", 110, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
        )
        for name, one in declared(kind).items()
    )


def filled(given: Options, kind: type[Options]) -> Options:
    return cast(Options, {**{name: one.default for name, one in declared(kind).items()}, **given})
