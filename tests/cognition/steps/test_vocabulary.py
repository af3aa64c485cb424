"""The engine's own tools under the names that models know: other words for the same, and nothing else."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AskApproval,
    AskUser,
    CallJudged,
    CallModel,
    CallTool,
    ConfigError,
    ContextAssembled,
    Decision,
    Limits,
    LLMEngine,
    ModelReplied,
    Plan,
    PlanChanged,
    PlanReviewed,
    Policy,
    ProposedCall,
    Question,
    QuestionAnswered,
    ReviewPlan,
    Rule,
    RunHook,
    SpawnWorker,
    Task,
    TasksChanged,
    ToolMessage,
    ToolSpec,
    UserSpoke,
    WorkerFinished,
    WorkerSpec,
    from_data,
    to_data,
)
from cognition.steps.decisions import ContextChosen, TurnFinished
from cognition.steps.engine_tools import SPAWN_WORKER, TEXT, object_schema
from cognition.steps.vocabulary import (
    _Other,
    _other,
    engine_tools,
    is_worker_tool,
    own_name,
    steps_of,
    worker_name_argument,
)
from cognition.testing import explore
from cognition.testing._situations import ENGINE_ARGUMENTS
from cognition.testing._world import World, take
from cognition.testing.strategies import well_placed
from cognition.values.features import Feature, Vocabulary
from tests.cognition.session import WRITE, Session, calling, effect, engine_with, replied

FEATURES: tuple[Feature, ...] = get_args(Feature)
OWN = {
    "AskUserQuestion": "ask_user",
    "TodoWrite": "update_tasks",
    "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "submit_plan",
    "Task": "spawn_worker",
}


def known(*tools: ToolSpec, **config: object) -> Session:
    return Session(engine_with(*tools, names="claude", features=FEATURES, **config))


def test_a_model_is_offered_one_vocabulary() -> None:
    """What has no name that models know keeps ours; what a tool may do follows from what it stands for."""
    ours, theirs = engine_tools(FEATURES), engine_tools(FEATURES, "claude")

    assert [own_name(tool.name, "claude") for tool in theirs] == [tool.name for tool in ours]
    assert {tool.name: own_name(tool.name, "claude") for tool in theirs if tool not in ours} == OWN
    flags = [(tool.read_only, tool.approval, tool.kind) for tool in theirs]
    assert flags == [(tool.read_only, tool.approval, tool.kind) for tool in ours]
    assert [own_name(tool.name, "cogstep") for tool in theirs] == [tool.name for tool in theirs]


@pytest.mark.parametrize(("told", "description"), [((), SPAWN_WORKER.description), (("Delegate.",), "Delegate.")])
def test_another_name_changes_the_arguments_and_nothing_else(told: tuple[str, ...], description: str) -> None:
    """All that is said of a tool stays, also its description, unless another is given."""
    arguments = object_schema({"prompt": TEXT})

    other = _other("Task", SPAWN_WORKER, dict, arguments, *told)

    spec = evolve(SPAWN_WORKER, name="Task", parameters=arguments, description=description)
    assert other == _Other(spec, SPAWN_WORKER, dict)


def test_a_name_of_the_other_vocabulary_is_the_programs() -> None:
    session = Session(engine_with(ToolSpec("Task"), features=FEATURES))
    other = known(ToolSpec("spawn_worker"))

    (run,) = calling(session, ProposedCall("Task", {"description": "a", "prompt": "b"}))
    (also,) = calling(other, ProposedCall("spawn_worker", {"name": "a", "objective": "b"}))

    assert isinstance(run, CallTool)
    assert isinstance(also, CallTool)
    with pytest.raises(ConfigError, match="two tools are named 'Task'"):
        AgentConfig(tools=(ToolSpec("Task"),), features=("workers",), names="claude")


def test_the_names_are_recorded_and_are_ours_where_nothing_is_said() -> None:
    config = AgentConfig(features=("tasks",), names="claude")

    assert from_data(to_data(config), AgentConfig) == config
    assert "names" not in to_data(AgentConfig(features=("tasks",)))
    with pytest.raises(ConfigError, match="names"):
        AgentConfig(names="gpt")  # type: ignore[arg-type]  # what is shown here


def test_a_question_has_its_heading_and_what_its_options_mean() -> None:
    session = known()
    options = [{"label": "red", "description": "warm"}, {"label": "blue"}]
    asked = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": True}

    (ask,) = calling(session, ProposedCall("AskUserQuestion", {"questions": [asked]}))
    session(QuestionAnswered(effect("1.1.1"), (("red", "blue"),)))

    assert AskUser(effect("1.1.1"), (Question("Which colour?", ("red", "blue"), True, "Colour", ("warm", "")),)) == ask
    assert from_data(to_data(ask), Decision) == ask
    assert session.results == [("Which colour? red, blue", "ok")]


def test_descriptions_belong_to_options() -> None:
    with pytest.raises(ConfigError, match="2 options and 1 descriptions"):
        Question("?", ("a", "b"), descriptions=("first",))


def test_the_list_of_tasks_is_written() -> None:
    session = known()
    todos = [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
        {"content": "Test", "status": "pending", "activeForm": "Testing"},
    ]

    changed, again = calling(session, ProposedCall("TodoWrite", {"todos": todos}))

    assert TasksChanged((Task("Look", "done"), Task("Write", "in_progress"), Task("Test"))) == changed
    assert isinstance(again, CallModel)


def test_a_plan_is_a_text_whose_items_are_its_steps() -> None:
    session = known()
    calling(session, ProposedCall("EnterPlanMode"))

    (review,) = session(replied("1.2.0", "", ProposedCall("ExitPlanMode", {"plan": "1. look\n2. write"})))
    decided = session(PlanReviewed(effect("1.2.1"), True))

    assert ReviewPlan(effect("1.2.1"), Plan(("look", "write"))) == review
    assert PlanChanged(Plan(("look", "write"))) in decided
    assert (session.state.mode, session.state.plan) == ("default", Plan(("look", "write")))


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        ("Just do it.", ["Just do it."]),
        ("- a\n* b\n+ c\n2) d\n10. e", ["a", "b", "c", "d", "e"]),
        ("# Plan\n\nFirst:\n1. a\n   more\n2. b\n\nThen done.", ["# Plan\n\nFirst:\na\n   more", "b\n\nThen done."]),
        ("  1. a\n  2. b\n", ["a", "b"]),
        ("1. a\n  - detail\n2. b", ["a\n  - detail", "b"]),
        ("1. a\n```\n- old\n+ new\n```\n2. b", ["a\n```\n- old\n+ new\n```", "b"]),
        ("1. a\n  ```\n- old\n  ```\n2. b", ["a\n  ```\n- old\n  ```", "b"]),
        ("1. a\n\n2. b", ["a", "b"]),
        ("-5 degrees\n1.5 metres\n- \n1.", ["-5 degrees\n1.5 metres\n- \n1."]),
    ],
)
def test_what_the_steps_of_a_text_are(plan: str, steps: list[str]) -> None:
    assert steps_of(plan) == steps


LETTERS = re.compile(r"[a-zA-Z#`]+")


@given(st.lists(st.sampled_from(["- a", "1. b", "text", "", "  - c", "```", "# h", "* \td", "- "]), max_size=12))
def test_no_word_of_a_plan_is_lost(lines: list[str]) -> None:
    """Who approves it has read all of it: only marks of items are gone."""
    plan = "\n".join(["Plan", *lines])
    steps = steps_of(plan)

    assert LETTERS.findall("\n".join(steps)) == LETTERS.findall(plan)


def test_a_worker_gets_the_prompt_and_all_tools() -> None:
    session = known(WRITE)

    arguments = {"description": "Look around", "prompt": "Find it.", "subagent_type": ""}
    (spawn,) = calling(session, ProposedCall("Task", arguments))
    session(WorkerFinished(effect("1.1.1"), "found"))

    assert isinstance(spawn, SpawnWorker)
    assert spawn.worker == WorkerSpec("Look around", "Find it.", ("write",))
    assert session.results == [("found", "ok")]


@pytest.mark.parametrize("names", ["cogstep", "claude"])
@pytest.mark.parametrize(("first", "begun"), [("a", []), ("b", ["a"]), (7, ["a"])])
def test_a_worker_that_could_not_begin_keeps_its_name(names: str, first: object, begun: list[str]) -> None:
    """In both vocabularies alike: another of its name is told that there are two."""
    name, task, tool = (
        ("name", "objective", "spawn_worker") if names == "cogstep" else ("description", "prompt", "Task")
    )
    session = Session(engine_with(features=("workers",), names=names))

    decided = calling(
        session, ProposedCall(tool, {name: first, task: ""}), ProposedCall(tool, {name: "a", task: "look"})
    )

    assert [decision.worker.name for decision in decided if isinstance(decision, SpawnWorker)] == begun


def test_workers_of_one_reply_are_told_apart_and_counted() -> None:
    session = known(limits=Limits(workers=2), hooks=("worker_stop",))
    calls = [ProposedCall("Task", {"description": name, "prompt": "x"}) for name in ("a", "a", "b", "c")]

    decided = calling(session, *calls)
    (hook,) = session(WorkerFinished(effect("1.1.1"), "done"))

    assert [spawn.worker.name for spawn in decided if isinstance(spawn, SpawnWorker)] == ["a", "b"]
    assert isinstance(hook, RunHook)
    assert hook.point == "worker_stop"


QUESTION = {"question": "?", "options": [{"label": "a"}, {"label": "b"}]}


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("AskUserQuestion", {}, "'questions' must be an array of objects"),
        ("AskUserQuestion", {"questions": [QUESTION] * 5}, "ask 1 to 4 questions, not 5"),
        ("AskUserQuestion", {"questions": [{**QUESTION, "options": ["a", "b"]}]}, "'options' must be an array of obj"),
        ("AskUserQuestion", {"questions": [{**QUESTION, "options": [{"label": "a"}]}]}, "must be 2 to 4, not 1"),
        ("AskUserQuestion", {"questions": [{**QUESTION, "options": [{"label": 1}] * 2}]}, "'label' must be a text"),
        ("AskUserQuestion", {"questions": [{**QUESTION, "header": 5}]}, "'header' must be a text"),
        ("AskUserQuestion", {"questions": [{**QUESTION, "question": ""}]}, "'question' must be a text"),
        (
            "AskUserQuestion",
            {"questions": [{**QUESTION, "options": [{"label": "a", "description": []}, {"label": "b"}]}]},
            "'description' must be a text",
        ),
        ("TodoWrite", {"tasks": []}, "'todos' must be an array of objects"),
        ("TodoWrite", {"todos": [{"content": "", "status": "pending"}]}, "'content' must be a text"),
        ("TodoWrite", {"todos": [{"content": "a", "status": "open"}]}, "one of pending, in_progress, completed"),
        ("TodoWrite", {"todos": [{"content": c, "status": "in_progress"} for c in "ab"]}, "at most one task can be"),
        ("ExitPlanMode", {"steps": ["a"]}, "'plan' must be a text"),
        ("Task", {"prompt": "x"}, "'description' must be a text"),
        ("Task", {"description": "x"}, "'prompt' must be a text"),
        ("Task", {"description": "x", "prompt": "y", "subagent_type": "explorer"}, "no 'subagent_type' 'explorer'"),
        ("update_tasks", {"tasks": []}, "there is no tool 'update_tasks'"),
    ],
)
def test_what_the_model_gets_wrong_is_told_in_its_words(name: str, arguments: dict[str, Any], problem: str) -> None:
    session = known(WRITE)

    (again,) = calling(session, ProposedCall(name, arguments))

    assert isinstance(again, CallModel)
    ((content, status),) = session.results
    assert status == "error"
    assert problem in content


def test_what_a_policy_says_of_a_tool_is_said_by_the_name_it_has() -> None:
    session = known(policy=Policy((Rule("deny", "TodoWrite"), Rule("ask", "Task"))))
    calls = (ProposedCall("TodoWrite", {"todos": []}), ProposedCall("Task", {"description": "a", "prompt": "b"}))

    asks = [one for one in calling(session, *calls) if isinstance(one, AskApproval)]

    assert [ask.call.name for ask in asks] == ["Task"]


# ------------------------------------------------------------------------------------- both say the same, a property

TEXTS = st.sampled_from(["a", "b", "look", "", "say: 1. no"])


def _questions(entries: list[tuple[str, list[str], bool]]) -> tuple[ProposedCall, ProposedCall]:
    own = [{"question": text, "options": options, "multiple": several} for text, options, several in entries]
    other = [
        {"question": text, "options": [{"label": one} for one in options], "multiSelect": several}
        for text, options, several in entries
    ]
    return ProposedCall("ask_user", {"questions": own}), ProposedCall("AskUserQuestion", {"questions": other})


STATUS = {"open": "pending", "in_progress": "in_progress", "done": "completed"}


def _tasks(entries: list[tuple[str, str]]) -> tuple[ProposedCall, ProposedCall]:
    own = [{"title": title, "status": status} for title, status in entries]
    other = [{"content": title, "status": STATUS[status], "activeForm": "…"} for title, status in entries]
    return ProposedCall("update_tasks", {"tasks": own}), ProposedCall("TodoWrite", {"todos": other})


def _plan(steps: list[str]) -> tuple[ProposedCall, ProposedCall]:
    text = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return ProposedCall("submit_plan", {"steps": steps}), ProposedCall("ExitPlanMode", {"plan": text})


def _worker(name: str, task: str) -> tuple[ProposedCall, ProposedCall]:
    own = ProposedCall("spawn_worker", {"name": name, "objective": task})
    return own, ProposedCall("Task", {"description": name, "prompt": task})


def _same(call: ProposedCall) -> tuple[ProposedCall, ProposedCall]:
    return call, call


OPTIONS = st.lists(st.sampled_from(["yes", "no", "maybe", "later"]), min_size=1, max_size=4)
BOTH = st.one_of(
    st.lists(st.tuples(TEXTS, OPTIONS, st.booleans()), max_size=3).map(_questions),
    st.lists(st.tuples(TEXTS, st.sampled_from(list(STATUS))), max_size=4).map(_tasks),
    st.lists(st.sampled_from(["look", "write it", "1. say"]), min_size=1, max_size=3).map(_plan),
    st.builds(_worker, TEXTS, TEXTS),
    st.just((ProposedCall("enter_plan_mode"), ProposedCall("EnterPlanMode"))),
    st.sampled_from([ProposedCall("finish_step"), ProposedCall("remember", {"text": "x"}), ProposedCall("write")]).map(
        _same
    ),
)


def _told(decision: Decision) -> Any:
    """A decision without what is said in other words: the request, and calls, of which the name is turned into ours."""
    if isinstance(decision, CallModel):
        return decision.effect_id, decision.purpose
    if isinstance(decision, TurnFinished) and getattr(decision.outcome, "kind", "") == "context_overflow":
        return "context_overflow", decision.usage  # and how much it would have taken, with the tools' own texts
    if isinstance(decision, ContextChosen):  # the tools' own texts leave more or less room
        return [(choice.source, choice.fate) for choice in decision.choices]
    if isinstance(decision, AskApproval):
        return decision.effect_id, decision.call.id, OWN.get(decision.call.name, decision.call.name)
    if isinstance(decision, SpawnWorker):
        return evolve(decision, remembered=_rules(decision.remembered))
    if isinstance(decision, CallJudged):
        return evolve(decision, rule=OWN.get(decision.rule, decision.rule))
    return decision


def _rules(remembered: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(evolve(rule, tool=OWN.get(rule.tool, rule.tool)) for rule in remembered)


def _results(world: World) -> list[tuple[str, str]]:
    """Errors name the arguments of their vocabulary."""
    results = [message for message in world.state.history if isinstance(message, ToolMessage)]
    return [(message.content if message.status == "ok" else "", message.status) for message in results]


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_both_vocabularies_decide_the_same(data: st.DataObject) -> None:
    """Whatever a model says in either, and whatever comes of it: equal decisions, results, tasks, plans and modes."""
    config = AgentConfig(
        tools=(WRITE,), features=FEATURES, policy=Policy((Rule("ask", "remember"),)), context_tokens=1_000_000
    )
    ours, theirs = LLMEngine(config), LLMEngine(evolve(config, names="claude"))
    world = other_world = World()
    for _ in range(data.draw(st.integers(1, 10))):
        asked = next((effect for effect in world.open if isinstance(effect, CallModel)), None)
        event = other = data.draw(well_placed(world, config)) if asked is None else UserSpoke("")
        if asked is not None:
            pairs = data.draw(st.lists(BOTH, min_size=1, max_size=3))
            event = ModelReplied(asked.effect_id, calls=tuple(pair[0] for pair in pairs))
            other = ModelReplied(asked.effect_id, calls=tuple(pair[1] for pair in pairs))
        edge, other_edge = take(ours, world, event), take(theirs, other_world, other)
        for decisions in zip(edge.transition.decisions, other_edge.transition.decisions, strict=True):
            one, two = decisions
            assert isinstance(one, ContextAssembled) or _told(one) == _told(two)
        world, other_world = edge.after, other_edge.after
        assert _results(world) == _results(other_world)
        assert _rules(world.state.remembered) == _rules(other_world.state.remembered)
        for part in ("mode", "resume_mode", "tasks", "plan", "counters"):
            assert getattr(world.state, part) == getattr(other_world.state, part)


def test_an_engine_with_the_other_names_keeps_the_laws() -> None:
    """In a neighbourhood of the beginning, with workers and notes that ask."""
    config = AgentConfig(
        tools=(ToolSpec("look", read_only=True), WRITE),
        features=FEATURES,
        names="claude",
        hooks=("before_tool", "worker_stop"),
        policy=Policy((Rule("ask", "Task"), Rule("ask", "remember"))),
        context_tokens=8192,
    )

    found = explore(LLMEngine(config), limit=250)

    assert found.violation is None
    assert found.states >= 250


def test_the_alphabet_of_an_exploration_speaks_both() -> None:
    """Each call of it is carried out: none is an error that hides what a law should see."""
    for names in get_args(Vocabulary):
        tools = engine_tools(FEATURES, names)
        assert {tool.name for tool in tools} <= set(ENGINE_ARGUMENTS)
        for tool in tools:
            session = Session(engine_with(features=FEATURES, names=names))
            calling(session, ProposedCall(tool.name, ENGINE_ARGUMENTS[tool.name][0]))
            assert tool.name == "finish_step" or all(status == "ok" for _, status in session.results), tool.name


def test_only_the_engine_s_own_tools_begin_workers() -> None:
    for names in get_args(Vocabulary):
        tools = engine_tools(get_args(Feature), names)
        begins = [tool.name for tool in tools if is_worker_tool(tool)]
        assert begins == ["Task" if names == "claude" else "spawn_worker"]
        assert not any(is_worker_tool(evolve(tool)) for tool in tools)


def test_only_the_worker_s_other_name_has_its_name_in_another_argument() -> None:
    assert worker_name_argument("Task", "claude") == "description"
    assert worker_name_argument("Task", "cogstep") == "name"
    assert worker_name_argument("spawn_worker", "cogstep") == "name"
    assert worker_name_argument("TodoWrite", "claude") == "name"
