"""What an embedding program decides about an agent: prompt, tools, limits, policy, how the model is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Attribute, field, frozen

from cognition.candidates import DEFAULT_SECTIONS, Section, check_sections
from cognition.checking import checked
from cognition.errors import ConfigError
from cognition.features import Feature, HookPoint, Vocabulary
from cognition.messages import schema_text
from cognition.policy import Policy
from cognition.routing import Breaker, Routes, check_models
from cognition.text_protocol import TextProtocol, instructions
from cognition.tools import ToolSpec
from cognition.vocabulary import engine_tools


def _positive(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:  # written so that NaN is refused too
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be above 0, not {value!r}")


def _between(low: float, high: float, *, above: bool = False) -> Callable[[object, Attribute[Any], float | None], None]:
    """A validator for numbers from ``low`` to ``high``; with ``above``, ``low`` itself is refused."""

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
"""What ``tool_choice`` may be besides a tool's name. A tool with such a name can be called, but not be chosen by it."""


@checked
@frozen
class GenerationOptions:
    """How a reply is sampled. Runtimes honour what they support and say what they do not.

    ``temperature``, ``repeat_penalty``, ``top_k``, ``typical_p``, ``top_p`` and ``min_p`` are None by default: then
    they are what the model's own files say, and where these say nothing, what is said here.
    """

    temperature: float | None = field(default=None, validator=_between(0, 2))
    """0 is greedy: always the likeliest token, after biases and penalties. 0 to 2. None: as the model's files say, else
    0."""
    seed: int | None = None
    """Makes sampling repeatable; None draws a new seed for each reply. On one machine and build a reply comes out the
    same if its logits do. These are rounded differently by what is evaluated with them: other replies, and the part of
    the prompt that no cache held."""
    max_tokens: int | None = field(default=None, validator=_positive)
    """The most tokens that a reply may have, its reasoning included. A reply that is cut there ends the turn as
    ``LimitReached("max_tokens")``. None: what the prompt leaves of the context."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply; they are no part of it."""
    thinking: bool | None = None
    """Whether the model reasons first, where its template has a switch for that; None leaves it to the template."""
    tool_choice: str = "auto"
    """``"auto"``: as the model likes. ``"none"``: no calls. ``"required"``: at least one. Else the name of the one tool
    to call. Where a call is forced, reasoning before it stays free; in an agent's turn, only the first one is."""
    parallel_calls: bool = True
    """Whether one reply may hold several calls."""
    response_format: str = field(default="", converter=schema_text)
    """The JSON Schema of the reply's text, as JSON text (a mapping is encoded); empty for free text. Where tools
    are offered, a reply may be calls instead."""
    constrain: bool = True
    """Whether sampling holds calls to their tools' schemas, where the runtime can. Without it a call that is forced,
    and a ``response_format``, are errors."""
    response_checked: bool = False
    """Whether whoever asks checks replies against the ``response_format`` too. Sampling then holds what of it a grammar
    can say and leaves the rest to that check, where it would be an error. Answers of ``returns=`` set it."""
    logit_bias: tuple[tuple[int, float], ...] = field(default=(), validator=_biases)
    """Token ids of the model's vocabulary, each with a number from -100 to 100 that is added to its logit; -100 all but
    forbids the token, and 100 all but forces it. This option and those below are applied in the order in which they
    stand here, and then the temperature."""
    repeat_penalty: float | None = field(default=None, validator=_between(0, 10, above=True))
    """Divides the logits of the reply's last 64 tokens where they are positive, and multiplies them where they are
    negative; 1 is off. None: as the model's files say, else 1. (CTRL, https://arxiv.org/abs/1909.05858)"""
    frequency_penalty: float = field(default=0.0, validator=_between(-2, 2))
    """Subtracted from a token's logit for each time that it stands among those 64; -2 to 2, as in OpenAI's API."""
    presence_penalty: float = field(default=0.0, validator=_between(-2, 2))
    """Subtracted once from the logit of each token among those 64; -2 to 2, as in OpenAI's API."""
    top_k: int | None = field(default=None, validator=_between(0, 2**31 - 1))
    """Only the likeliest ``top_k`` tokens; 0 is off. None: as the model's files say, else 0."""
    typical_p: float | None = field(default=None, validator=_between(0, 1, above=True))
    """Only the tokens whose information is nearest to the expected one, until their probabilities exceed this; 1 is
    off. None: as the model's files say, else 1. (https://arxiv.org/abs/2202.00666)"""
    top_p: float | None = field(default=None, validator=_between(0, 1, above=True))
    """Only the likeliest tokens whose probabilities reach this together; 1 is off. None: as the model's files say, else
    1. (https://arxiv.org/abs/1904.09751)"""
    min_p: float | None = field(default=None, validator=_between(0, 1))
    """Only tokens whose probability is at least this share of the likeliest one's; 0 is off. None: as the model's files
    say, else 0. (https://arxiv.org/abs/2407.01082)"""


@checked
@frozen
class Limits:
    """Budgets of one turn. None is no limit. Each has an outcome of its own (``LimitReached``)."""

    steps: int = field(default=12, validator=_positive)
    """Model replies. At the limit one last call, without tools, asks for an answer."""
    tool_calls: int | None = field(default=64, validator=_positive)
    """Calls that are run. At the limit one last model call asks for an answer."""
    refusals: int = field(default=3, validator=_positive)
    """Tool calls in a row that policy or the user refused."""
    input_tokens: int | None = field(default=None, validator=_positive)
    """Tokens of prompts, over all model calls of the turn."""
    output_tokens: int | None = field(default=None, validator=_positive)
    """Tokens of replies, over all model calls of the turn."""
    cost: float | None = field(default=None, validator=_positive)
    """What the model calls cost together, in the unit of ``Usage.cost``."""
    seconds: float | None = field(default=None, validator=_positive)
    """Wall time from the user's message, by the inputs' ``at``, without the time in which nothing goes on and a person
    is waited for: an approval, an answer, a plan's review. A model call that takes longer is cancelled, and what it had
    said is kept."""
    workers: int | None = field(default=8, validator=_positive)
    """Workers that are spawned."""
    hook_continuations: int = field(default=3, validator=_positive)
    """How often a hook may ask a turn that would complete to go on."""
    corrections: int = field(default=2, validator=_between(0, 1000))
    """How often an answer that is not of the type asked for (``returns=``) goes back to the model; 0: never."""


@checked
@frozen
class RetryPolicy:
    """How often and when a failed model call is tried again."""

    attempts: int = field(default=5, validator=_positive)
    """Calls in all, the first one included."""
    first_delay: float = field(default=1.0, validator=_positive)
    """Seconds before the second attempt; doubled for each further one, doubled again for rate limits."""
    longest_delay: float = field(default=30.0, validator=_positive)
    """No wait is longer, Retry-After included."""


@checked
@frozen
class AgentConfig:
    """Everything an ``LLMEngine`` is made from. Plain values: it is written into a session's header."""

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
    """Where ``options.max_tokens`` is None: how much of the context prompts leave free for the reply, and half of it at
    most. A reply may have more where its prompt is short."""
    features: tuple[Feature, ...] = ()
    """What the agent may do beside calling ``tools``; each adds tools that the engine carries out itself."""
    names: Vocabulary = "cogstep"
    """What the tools of the features are called, and so which arguments they take: by ``cogstep``'s own names, or by
    those that models know (``claude``)."""
    protocol: TextProtocol = "native"
    """How the model writes tool calls; a text protocol is for models whose template has no tools."""
    hooks: tuple[HookPoint, ...] = ()
    """Where the program wants to be asked."""
    recall_first: bool = False
    """Whether the memory is searched for each user message before the model is called."""
    sections: tuple[Section, ...] = DEFAULT_SECTIONS
    """The parts of a prompt that candidates are chosen for (``UserSpoke.context``), in the order in which they
    stand."""
    compact_at: float | None = field(default=None, validator=_between(0, 1, above=True))
    """The share of the prompt's budget, above 0 and at most 1, beyond which a model call summarises older messages;
    None: never, unless somebody asks for it. What finds no room is left out either way."""
    models: tuple[str, ...] = ()
    """The names of the models that there are beside the agent's own. ``context_tokens`` has to hold for all of them."""
    fallback: tuple[str, ...] = ()
    """Of these models, those that are called where the one before fails, in this order; ``""`` is the agent's own."""
    routes: Routes = ()
    """For tasks, the model that is called first: a task (``answer``, ``plan``, ``summary``, ``worker``), and a name of
    ``models`` or ``""``."""
    breaker: Breaker = field(factory=Breaker)
    """When no calls go to a model for a while, where there is another one."""

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        """Every tool that the model is told of: the program's, then those of the features."""
        return self.tools + engine_tools(self.features, self.names) if self.features else self.tools

    @property
    def prompt(self) -> str:
        """The system prompt as the model gets it: with a text protocol, the tools are described in it."""
        return self.prompt_with(None)

    def prompt_with(self, system: str | None) -> str:
        """``prompt`` with the system prompt that the state has in place of this one, if it has one."""
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
