"""The configuration of an agent: prompt, tools, limits, policy, sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Attribute, field, frozen

from cognition.base.checking import checked
from cognition.base.errors import ConfigError
from cognition.parsing.text_protocol import TextProtocol, instructions
from cognition.policy import Policy
from cognition.steps.codec import ABSENT
from cognition.steps.vocabulary import engine_tools
from cognition.values.candidates import DEFAULT_SECTIONS, Section, check_sections
from cognition.values.features import Feature, HookPoint, Vocabulary
from cognition.values.messages import schema_text
from cognition.values.routing import Breaker, Routes, check_models
from cognition.values.tools import ToolSpec


def _positive(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:  # written so that NaN is refused too
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be above 0, not {value!r}")


def _between(low: float, high: float, *, above: bool = False) -> Callable[[object, Attribute[Any], float | None], None]:
    """Return a validator for numbers from ``low`` to ``high``; with ``above``, ``low`` itself is invalid."""

    def check(_instance: object, attribute: Attribute[Any], value: float | None) -> None:
        if value is None:
            return
        if not low <= value <= high or (above and value == low):  # written so that NaN is refused too
            less = f"above {low:g} and at most {high:g}" if above else f"between {low:g} and {high:g}"
            raise ConfigError(f"{attribute.name} must be {less}, not {value!r}")

    return check


def _biases(_instance: object, attribute: Attribute[Any], value: tuple[tuple[int, float], ...]) -> None:
    for token, bias in value:
        if token < 0 or not -100 <= bias <= 100:
            raise ConfigError(
                f"{attribute.name} must have tokens from 0 and biases between -100 and 100, not {(token, bias)!r}"
            )


TOOL_CHOICES = ("auto", "none", "required")
"""Values of ``tool_choice`` other than a tool's name. A tool with such a name can be called, but not be chosen by it.
"""


@checked
@frozen
class GenerationOptions:
    """How a reply is sampled. Runtimes apply the options they support and report the others.

    ``temperature``, ``repeat_penalty``, ``top_k``, ``typical_p``, ``top_p`` and ``min_p`` are None by default. They
    then take the values of the model's own files, or else the values documented here.
    """

    temperature: float | None = field(default=None, validator=_between(0, 2))
    """0 is greedy: always the likeliest token, after biases and penalties. 0 to 2. None: the value of the model's
    files, else 0.
    """
    seed: int | None = None
    """Makes sampling repeatable; None draws a new seed for each reply. On one machine and build, equal logits give an
    equal reply. The rounding of logits depends on the other replies evaluated with them, and on how much of the prompt
    was cached.
    """
    max_tokens: int | None = field(default=None, validator=_positive)
    """The most tokens of a reply, including its reasoning. A reply cut at this limit ends the turn as
    ``LimitReached("max_tokens")``. None: all the context left by the prompt.
    """
    stop: tuple[str, ...] = ()
    """Texts that end the reply; they are not part of it."""
    thinking: bool | None = None
    """Whether the model reasons first, if its template has a switch for it; None leaves it to the template."""
    tool_choice: str = "auto"
    """``"auto"``: the model decides. ``"none"``: no calls. ``"required"``: at least one call. Otherwise the name of the
    one tool to call. Reasoning before a forced call stays free. In an agent's turn, only the first call is forced.
    """
    parallel_calls: bool = True
    """Whether one reply may contain several calls."""
    response_format: str = field(default="", converter=schema_text)
    """The JSON Schema of the reply's text, as JSON text (a mapping is encoded); empty for free text. If tools are
    offered, a reply may consist of calls instead.
    """
    constrain: bool = True
    """Whether sampling constrains calls to their tools' schemas, if the runtime supports it. If False, a forced call
    and a ``response_format`` are errors.
    """
    response_checked: bool = False
    """Whether the caller also checks replies against ``response_format``. Sampling then enforces only the rules that a
    grammar can express; otherwise any other rule is an error. Answers with ``returns=`` set it.
    """
    logit_bias: tuple[tuple[int, float], ...] = field(default=(), validator=_biases)
    """Token ids of the model's vocabulary, each with a number from -100 to 100 that is added to its logit; -100 almost
    forbids the token, 100 almost forces it. This option and those below apply in the order listed, before the
    temperature.
    """
    repeat_penalty: float | None = field(default=None, validator=_between(0, 10, above=True))
    """Applies to tokens among the reply's last 64: divides positive logits by this number and multiplies negative
    logits; 1 is off. None: the value of the model's files, else 1. (CTRL, https://arxiv.org/abs/1909.05858)
    """
    frequency_penalty: float = field(default=0.0, validator=_between(-2, 2))
    """Subtracted from a token's logit for each occurrence among those 64; -2 to 2, as in OpenAI's API."""
    presence_penalty: float = field(default=0.0, validator=_between(-2, 2))
    """Subtracted once from the logit of each token among those 64; -2 to 2, as in OpenAI's API."""
    top_k: int | None = field(default=None, validator=_between(0, 2**31 - 1))
    """Only the likeliest ``top_k`` tokens; 0 is off. None: the value of the model's files, else 0."""
    typical_p: float | None = field(default=None, validator=_between(0, 1, above=True))
    """Only the tokens with information nearest to the expected value, until their probabilities exceed this sum; 1 is
    off. None: the value of the model's files, else 1. (https://arxiv.org/abs/2202.00666)
    """
    top_p: float | None = field(default=None, validator=_between(0, 1, above=True))
    """Only the likeliest tokens, until their probabilities reach this sum; 1 is off. None: the value of the model's
    files, else 1. (https://arxiv.org/abs/1904.09751)
    """
    min_p: float | None = field(default=None, validator=_between(0, 1))
    """Only tokens with at least this share of the likeliest token's probability; 0 is off. None: the value of the
    model's files, else 0. (https://arxiv.org/abs/2407.01082)
    """


@checked
@frozen
class Limits:
    """Budgets of one turn; with ``session_`` in front, of all turns. None means no limit. Each limit has its own
    outcome (``LimitReached``).
    """

    steps: int = field(default=12, validator=_positive)
    """Model replies. At the limit one last call, without tools, asks for an answer."""
    tool_calls: int | None = field(default=64, validator=_positive)
    """Tool calls that run. At the limit one last model call asks for an answer."""
    refusals: int = field(default=3, validator=_positive)
    """Tool calls in a row that policy or the user refused."""
    input_tokens: int | None = field(default=None, validator=_positive)
    """Tokens of prompts, over all model calls of the turn."""
    output_tokens: int | None = field(default=None, validator=_positive)
    """Tokens of replies, over all model calls of the turn. A reply may have the rest of them at most
    (``GenerationOptions.max_tokens``). A reply that uses more tokens or money than is left ends the turn: its text is
    kept, and its calls do not run.
    """
    cost: float | None = field(default=None, validator=_positive)
    """Total cost of the model calls, in the unit of ``Usage.cost``."""
    seconds: float | None = field(default=None, validator=_positive)
    """Wall time in seconds since the user's message, by the inputs' ``at``. Time spent only waiting for a person (an
    approval, an answer, a plan's review) does not count. A model call that takes longer is cancelled; its partial reply
    stays in history.
    """
    workers: int | None = field(default=8, validator=_positive)
    """Spawned workers."""
    hook_continuations: int = field(default=3, validator=_positive)
    """How often a hook may make a turn continue that would otherwise complete."""
    corrections: int = field(default=2, validator=_between(0, 1000))
    """How often an answer of the wrong type (``returns=``) goes back to the model; 0 means never."""
    repeats: int | None = field(default=3, validator=_between(2, 10_000))
    """How often in a row the same call, or the same cycle of two or three calls, may give the same results. The model
    is warned one round earlier. Then one last model call, without tools, asks for an answer. Calls of a tool that
    polls (``ToolSpec.polls``) don't count. None: any number of times.
    """
    session_input_tokens: int | None = field(default=None, validator=_positive)
    """Tokens of prompts, over all turns of the session, workers and summaries. What is used stays used after a resume
    and a reset.
    """
    session_output_tokens: int | None = field(default=None, validator=_positive)
    """The same for tokens of replies."""
    session_cost: float | None = field(default=None, validator=_positive)
    """The same for the cost."""


@checked
@frozen
class RetryPolicy:
    """How often and when a failed model call is repeated."""

    attempts: int = field(default=5, validator=_positive)
    """Calls in total, including the first."""
    first_delay: float = field(default=1.0, validator=_positive)
    """Seconds before the second attempt; doubled for each further attempt, and doubled again for rate limits."""
    longest_delay: float = field(default=30.0, validator=_positive)
    """The longest wait in seconds, also for Retry-After."""


EDITION = 3
"""The newest edition of the decisions of ``LLMEngine``. Before edition 3, only the first 24 words of a message count
when candidates are chosen for it. Edition 1 is that of recordings that name none. In it:

- any three equal calls in a row, or equal cycles of two or three, are a loop, whatever their results are: the third one
  does not run, and the model is not warned (``Limits.repeats`` has no effect);
- requests ask for as many tokens as if there were no ``Limits.output_tokens``, and an answer that uses more than a
  budget of tokens or cost completes its turn;
- an estimate of a prompt's size ends a turn, the part set aside for the reply never gives way, and a refused prompt is
  trimmed once;
- arguments of calls are not shortened;
- a summary covers only the messages that the window shows, in one request.
"""


def _known_edition(_instance: object, _attribute: Attribute[Any], value: int) -> None:
    if not 1 <= value <= EDITION:
        newer = "; a newer version of cogstep wrote it, so read it with that version" if value > EDITION else ""
        raise ConfigError(f"edition must be between 1 and {EDITION}, not {value!r}{newer}")


@checked
@frozen
class AgentConfig:
    """The complete configuration of an ``LLMEngine``. Plain values, recorded in a session's header."""

    system: str = ""
    """The system prompt; empty for none."""
    tools: tuple[ToolSpec, ...] = ()
    options: GenerationOptions = field(factory=GenerationOptions)
    limits: Limits = field(factory=Limits)
    policy: Policy = field(factory=Policy)
    retry: RetryPolicy = field(factory=RetryPolicy)
    context_tokens: int = field(default=4096, validator=_positive)
    """The model's context length: prompt and reply together."""
    reply_tokens: int = field(default=512, validator=_positive)
    """If ``options.max_tokens`` is None: how much of the context prompts leave free for the reply, at most half of it.
    A reply after a short prompt may be longer.
    """
    features: tuple[Feature, ...] = ()
    """The agent's abilities in addition to calling ``tools``. Each adds tools that the engine itself executes."""
    names: Vocabulary = "cogstep"
    """The names of the features' tools, and thereby their arguments: ``cogstep``'s own names, or names that models know
    (``claude``).
    """
    protocol: TextProtocol = "native"
    """How the model writes tool calls; a text protocol is for models whose template has no tools."""
    hooks: tuple[HookPoint, ...] = ()
    """The hook points that ask the program."""
    recall_first: bool = False
    """Whether the memory is searched for each user message before the model is called."""
    sections: tuple[Section, ...] = DEFAULT_SECTIONS
    """The parts of a prompt that candidates (``UserSpoke.context``) can fill, in prompt order."""
    compact_at: float | None = field(default=None, validator=_between(0, 1, above=True))
    """The share of the prompt's budget, above 0 and at most 1, beyond which a model call summarises older messages.
    None: summarise only on request. Messages that do not fit are left out in either case.
    """
    models: tuple[str, ...] = ()
    """The names of models available in addition to the agent's own. ``context_tokens`` must hold for all of them."""
    fallback: tuple[str, ...] = ()
    """The names from ``models`` to call if the previous model fails, in this order; ``""`` is the agent's own."""
    routes: Routes = ()
    """The model to call first for a task: pairs of a task (``answer``, ``plan``, ``summary``, ``worker``) and a name
    from ``models``, or ``""``.
    """
    breaker: Breaker = field(factory=Breaker)
    """When calls to a failing model pause, if there is another model."""
    edition: int = field(default=EDITION, validator=_known_edition, metadata={ABSENT: 1})
    """The edition of the engine's decisions, from 1 to ``EDITION``. Recorded, so that each recording replays with the
    decisions of its time; leave it alone otherwise.
    """

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        """Every tool offered to the model: the program's, then those of the features."""
        return self.tools + engine_tools(self.features, self.names) if self.features else self.tools

    @property
    def prompt(self) -> str:
        """The system prompt as sent to the model; a text protocol adds a description of the tools."""
        return self.prompt_with(None)

    def prompt_with(self, system: str | None) -> str:
        """Return ``prompt`` with ``system``, if not None, in place of the configured system prompt."""
        return instructions(self.protocol, self.system if system is None else system, self.offered)

    def __attrs_post_init__(self) -> None:
        if self.sections is not DEFAULT_SECTIONS:
            check_sections(self.sections)
        if self.models or self.fallback or self.routes:
            check_models(self.models, self.fallback, self.routes)
        names = [tool.name for tool in self.offered]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"two tools are named {twice!r}; give one of them another name")
        self.policy.check(self.tools)
        choice = self.options.tool_choice
        if choice not in (*TOOL_CHOICES, *names):
            raise ConfigError(
                f"options.tool_choice {choice!r} is neither one of {', '.join(TOOL_CHOICES)} nor the name of a tool"
            )
        if choice == "required" and not names:
            raise ConfigError("options.tool_choice is 'required', and there are no tools")
        if self.protocol != "native" and (choice != "auto" or self.options.response_format):
            raise ConfigError(
                f"with the text protocol {self.protocol!r} replies are text of their own form: leave tool_choice and "
                "response_format alone, or use protocol='native'"
            )
        if self.options.max_tokens is not None and self.options.max_tokens >= self.context_tokens:
            raise ConfigError(
                f"options.max_tokens ({self.options.max_tokens}) leaves no room for a prompt in a context of "
                f"{self.context_tokens} tokens; lower it or use a longer context"
            )
