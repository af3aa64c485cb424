"""Nothing that a program hands in is taken in silence: names, words and types, of every door."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from attrs import fields
from hypothesis import given, strategies as st

from cognition import (
    CogstepError,
    Completed,
    ConfigError,
    Limits,
    Policy,
    Rule,
)
from interpreters import Agent, AsyncAgent, Tool, events, fakes, rehearse, replay, tool
from interpreters.agents.options import AgentOptions, HandleOptions, ProgramOptions, declared_options
from interpreters.hosting import AgentHost
from interpreters.loop.program.approvals import Approval
from interpreters.loop.program.questions import HookAnswer, PlanAnswer
from interpreters.recording.redaction import Redaction
from runtime import Adapter, Isolation, LlamaOptions, load_model
from runtime.loading import LoadOptions
from tests.cognition.base.test_checking import ODD

DOCS = Path(__file__).resolve().parents[3] / "docs"

DENY = Policy((Rule("deny", "*"),))


def model() -> fakes.ScriptedModel:
    return fakes.ScriptedModel(["Hello."])


def plain(a: int) -> int:
    """Add one."""
    return a + 1


def resumed(path: str = "nowhere.jsonl", **given: Any) -> Agent:
    return Agent.resume(path, model(), **given)


def forked(path: str = "nowhere.jsonl", **given: Any) -> Agent:
    return Agent.fork(path, model(), **given)


def opened(**given: Any) -> Any:
    with AgentHost.in_thread(model()) as host:
        return host.open("s", **given)


def decorated(**given: Any) -> Any:
    return tool(**given)(plain)


def foreign(**given: Any) -> Any:
    return Tool.from_schema(**{"name": "t", "parameters": {"type": "object"}, "function": plain, **given})


def names_of(kind: type) -> list[str]:
    return [one.alias for one in fields(kind) if one.init]


DOORS: Mapping[Callable[..., Any], list[str]] = {
    Agent: list(get_type_hints(AgentOptions)),
    AsyncAgent: list(get_type_hints(AgentOptions)),
    resumed: list(get_type_hints(ProgramOptions)),
    forked: list(get_type_hints(AgentOptions)),
    opened: list(get_type_hints(HandleOptions)),
    load_model: list(get_type_hints(LoadOptions)),
    decorated: ["name", "read_only", "idempotent", "approval", "timeout"],
    foreign: ["name", "description", "parameters", "read_only", "idempotent", "approval", "timeout", "function"],
    Approval: names_of(Approval),
    HookAnswer: names_of(HookAnswer),
    PlanAnswer: names_of(PlanAnswer),
    Redaction: names_of(Redaction),
    LlamaOptions: names_of(LlamaOptions),
    Isolation: names_of(Isolation),
    Adapter: names_of(Adapter),
}
"""Every door with its options."""

BASE: Mapping[Callable[..., Any], Mapping[str, Any]] = {
    Agent: {"model": fakes.ScriptedModel([])},
    AsyncAgent: {"model": fakes.ScriptedModel([])},
    Adapter: {"path": "x"},
    Approval: {"allowed": True},
    PlanAnswer: {"approved": True},
}
"""What has to be there."""

ANYTHING = {"deps"}
"""Options whose value is the program's own."""

QUICK = (
    Agent,
    AsyncAgent,
    decorated,
    foreign,
    Approval,
    HookAnswer,
    PlanAnswer,
    Redaction,
    LlamaOptions,
    Isolation,
    Adapter,
)
"""Doors behind which nothing is loaded, read or started."""


class Odd:
    """Nothing that any option means."""


@pytest.mark.behaviour("O14a")
@given(st.sampled_from(list(DOORS)), st.text(min_size=1, max_size=12), ODD)
def test_an_unknown_name_is_refused_everywhere(door: Callable[..., Any], name: str, value: object) -> None:
    if name not in DOORS[door] and name not in ("model", "tools", "system"):
        with pytest.raises(CogstepError, match="has no option"):
            door(**{**BASE.get(door, {}), name: value})


@pytest.mark.behaviour("O14a")
@pytest.mark.parametrize(
    ("door", "name"),
    [(door, name) for door, names in DOORS.items() for name in names if name not in ANYTHING],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_value_of_no_such_type_is_refused(door: Callable[..., Any], name: str) -> None:
    """For every option there is; the message names it."""
    with pytest.raises(CogstepError) as caught:
        door(**{**BASE.get(door, {}), name: Odd()})
    assert name in str(caught.value)
    assert "Odd" in str(caught.value)


@pytest.mark.behaviour("O14a")
@given(st.sampled_from(QUICK), st.data())
def test_nothing_raw_comes_of_any_value(door: Callable[..., Any], data: st.DataObject) -> None:
    """A value is right, or there is a CogstepError."""
    name = data.draw(st.sampled_from([name for name in DOORS[door] if name != "journal"]))
    value = data.draw(ODD)
    try:
        made = door(**{**BASE.get(door, {}), name: value})
    except CogstepError:
        return
    if isinstance(made, Agent):
        made.close()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Agent(model(), polices=DENY), "Agent has no option 'polices'; did you mean 'policy'?"),
        (lambda: AsyncAgent(model(), polices=DENY), "AsyncAgent has no option 'polices'; did you mean 'policy'?"),
        (lambda: Agent(model(), returns=int), "'returns'; Agent.run takes it: run(..., returns=...)"),  # type: ignore[call-arg]
        (lambda: Agent(model(), mode="plan"), "Agent has no option 'mode'"),
        (lambda: Agent(model(), limit=Limits()), "did you mean 'limits'?"),
        (lambda: Agent(model(), temperature=1), "write options=GenerationOptions(temperature=...)"),
        (lambda: Agent(model(), state={}), "Agent: state must be an AgentState or None"),
        (lambda: Agent(model(), hooks={"before_tools": print}), "did you mean 'before_tool'?"),
        (lambda: Agent("gpt-4"), "model must be a Runtime, such as load_model() gives, not 'gpt-4'"),
        (lambda: Agent(), "Agent needs model"),
        (lambda: Agent(model(), limits={"steps": 3}), "not a mapping; write Limits(steps=...)"),
        (lambda: Agent(model(), [5]), "tools[0] must be a Tool or a ToolSpec or a function, not 5"),
        (lambda: Agent(model(), [int]), "tool 'int': its parameters can't be read"),
        (lambda: Agent(model(), worker_patience=-1), "worker_patience must be above 0 seconds, or None for no end"),
        (lambda: Agent(model(), worker_patience=float("nan")), "worker_patience must be above 0 seconds"),
        (lambda: replay(5), "replay: path must be a text or a PathLike or a Recorder, not 5"),  # type: ignore[arg-type]
        (lambda: replay("x", engine="y"), "engine must be a CognitiveEngine or a function or None"),  # type: ignore[arg-type]
        (lambda: replay("x", foo=1), "replay has no option 'foo'"),  # type: ignore[call-arg]
        (lambda: rehearse("x", tools=1), "tools must be a list"),  # type: ignore[arg-type]
        (lambda: Agent(model(), [], "", 5), "takes at most 3 values by their place, and got 4"),
        (lambda: Agent(model(), context_tokens=0), "context_tokens must be above 0"),
        (lambda: Agent(model(), features="plan"), "features must be a list, not 'plan'"),
        (lambda: Agent(model(), features=["pan"]), "not 'pan'; did you mean 'plan'?"),
        (lambda: Agent(model(), fsync="always"), "fsync must be one of 'record', 'turn', 'never'"),
        (lambda: Agent(model()).set_mode("plann"), "did you mean 'plan'?"),  # type: ignore[arg-type]
        (lambda: Agent(model()).run(5), "or a list of texts and images, not 5"),  # type: ignore[call-overload]
        (lambda: asyncio.run(AsyncAgent(model()).run(5)), "or a list of texts and images, not 5"),  # type: ignore[call-overload]
        (lambda: resumed(polcy=DENY), "Agent.resume has no option 'polcy'"),
        (lambda: forked(polcy=DENY), "Agent.fork has no option 'polcy'; did you mean 'policy'?"),
        (lambda: opened(polcy=DENY), "AgentHost.open has no option 'polcy'; did you mean 'policy'?"),
        (lambda: load_model(contex_tokens=5), "load_model has no option 'contex_tokens'"),  # type: ignore[call-overload]
        (lambda: load_model(backend="lama"), "did you mean 'llama'?"),  # type: ignore[call-overload]
        (lambda: decorated(reed_only=True), "did you mean 'read_only'?"),
        (lambda: tool(3), "function must be a function, not 3"),  # type: ignore[call-overload]
        (lambda: HookAnswer("deny"), "verdict must be one of 'continue', 'refuse', 'go_on', not 'deny'"),  # type: ignore[arg-type]
        (lambda: Approval("no"), "allowed must be True or False, not 'no'"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_message_says_what_to_write(make: Callable[[], object], told: str) -> None:
    """The cases in which a tool once ran that was to be kept from it, and their kin."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert told in str(caught.value)


@pytest.mark.behaviour("O14b")
def test_the_page_of_options_is_current() -> None:
    """``python docs/print_options.py > docs/reference/options.md`` brings it up to date. Every option has a meaning
    there.
    """
    spec = importlib.util.spec_from_file_location("print_options", DOCS / "print_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.page() == (DOCS / "reference" / "options.md").read_text("utf-8")


@pytest.mark.behaviour("O14b")
@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_help_lists_every_option(kind: type) -> None:
    text = inspect.getdoc(kind) or ""

    for name, option in declared_options(AgentOptions).items():
        assert f"{name}: {option.meaning}" in " ".join(text.split())


def test_a_plain_function_is_a_tool() -> None:
    """Beside one that was decorated, in either kind of agent."""
    scripted = fakes.ScriptedModel([fakes.call("plain", a=1), "It is 2."])
    with Agent(scripted, tools=[plain]) as agent:
        assert agent.run("Add one to 1.").outcome == Completed("It is 2.")
        assert agent.describe().tools == ("plain",)

    with pytest.raises(ConfigError, match="'untyped'"):
        Agent(model(), tools=[lambda untyped: untyped])


def test_an_answer_that_is_none_allows_nothing() -> None:
    """``Approval("no")`` is true for Python; whoever answers so is told, and the call does not run."""
    ran: list[str] = []

    @tool(approval=True)
    def wipe() -> None:
        ran.append("wipe")

    with (
        Agent(
            fakes.ScriptedModel([fakes.call("wipe")]),
            [wipe],
            approve=lambda request: Approval("no"),  # type: ignore[arg-type]  # that is the point
        ) as agent,
        pytest.raises(ConfigError, match="allowed must be True or False, not 'no'"),
    ):
        agent.run("Wipe!")
    assert ran == []


@pytest.mark.behaviour("O14c")
@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_a_rule_for_no_tool_is_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Once, before the first turn, to the observers and to the log: a misspelt rule protects nothing."""
    seen: list[str] = []

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            seen.append(event.value.message)

    policy = Policy((Rule("deny", "plian"), Rule("deny", "plain"), Rule("ask", "mcp.*"), Rule("ask", "*")))
    given: Any = {"tools": [plain], "policy": policy, "observers": [events.Inline(watch)]}

    async def turns() -> None:
        async with AsyncAgent(fakes.ScriptedModel(["Hello.", "Hello."]), **given) as agent:
            await agent.run("Hi!")
            await agent.run("Hi!")

    with caplog.at_level(logging.WARNING, "cogstep"):
        if kind == "asyncio":
            asyncio.run(turns())
        else:
            with Agent(fakes.ScriptedModel(["Hello.", "Hello."]), **given) as agent:
                agent.run("Hi!")
                agent.run("Hi!")

    assert seen == [
        "a rule of the policy is for 'plian', and no tool has such a name; did you mean 'plain'?",
        "a rule of the policy is for 'mcp.*', and no tool has such a name; there are plain",
    ]
    assert [record.message for record in caplog.records] == seen
