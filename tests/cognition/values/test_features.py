"""What an agent may do beside calling tools: questions, tasks, plans, memory, workers, modes."""

from __future__ import annotations

import pytest

from cognition import (
    AgentConfig,
    ApprovalGiven,
    AskApproval,
    AskUser,
    CallJudged,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    ConfigError,
    HookReturned,
    LimitHit,
    LimitReached,
    Limits,
    MemoryRecalled,
    ModeChanged,
    ModeSet,
    Plan,
    PlanChanged,
    PlanReviewed,
    Policy,
    ProposedCall,
    Question,
    QuestionAnswered,
    Recall,
    Rejected,
    Remember,
    ReviewPlan,
    Rule,
    RunHook,
    SessionReset,
    SpawnWorker,
    StartTimer,
    Task,
    TasksChanged,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
    in_flight,
)
from cognition.engine.handlers.engine_calls import STARTERS
from cognition.steps.engine_tools import BY_FEATURE
from cognition.values.features import Mode
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, calling, effect, engine_with, replied, worker


def test_every_engine_tool_has_a_starter() -> None:
    assert {tool.name for tools in BY_FEATURE.values() for tool in tools} == set(STARTERS)


def test_a_name_of_the_engine_is_the_programs_while_the_feature_is_off() -> None:
    """A program may have a tool named ``remember`` of its own; with the feature on, the clash is refused."""
    session = Session(engine_with(ToolSpec("remember")))

    (run,) = calling(session, ProposedCall("remember", {"text": "x"}))

    assert isinstance(run, CallTool)
    with pytest.raises(ConfigError, match="two tools are named 'remember'"):
        AgentConfig(tools=(ToolSpec("remember"),), features=("memory",))


# ----------------------------------------------------------------------------------------------------------- questions

COLOUR = {"question": "Which colour?", "options": ["red", "blue"]}
SIZES = {"question": "Which sizes?", "options": ["S", "M", "L"], "multiple": True}


def test_the_model_can_ask_the_user_and_reads_the_answers() -> None:
    session = Session(engine_with(features=("questions",)))

    (ask,) = calling(session, ProposedCall("ask_user", {"questions": [COLOUR, SIZES]}))
    (again,) = session(QuestionAnswered(effect("1.1.1"), (("red",), ("S", "L"))))

    questions = (Question("Which colour?", ("red", "blue")), Question("Which sizes?", ("S", "M", "L"), True))
    assert AskUser(effect("1.1.1"), questions) == ask
    assert isinstance(again, CallModel)
    assert session.results == [("Which colour? red\nWhich sizes? S, L", "ok")]


@pytest.mark.parametrize("answers", [(), (("red",),), (("red", "blue"), ("S",)), (("red",), ())])
def test_answers_that_do_not_fit_the_questions_are_rejected(answers: tuple[tuple[str, ...], ...]) -> None:
    session = Session(engine_with(features=("questions",)))
    calling(session, ProposedCall("ask_user", {"questions": [COLOUR, SIZES]}))
    before = session.state

    (no,) = session(QuestionAnswered(effect("1.1.1"), answers))

    assert isinstance(no, Rejected)
    assert "2 answers are expected" in no.detail
    assert before == session.state


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("ask_user", {}, "'questions' must be an array of objects"),
        ("ask_user", {"questions": []}, "ask 1 to 4 questions, not 0"),
        ("ask_user", {"questions": [COLOUR] * 5}, "ask 1 to 4 questions, not 5"),
        ("ask_user", {"questions": [{"question": "?", "options": ["a"]}]}, "must be 2 to 4, not 1"),
        ("ask_user", {"questions": [{"question": "?", "options": list("abcde")}]}, "must be 2 to 4, not 5"),
        ("ask_user", {"questions": [{"question": "?", "options": ["a", "a"]}]}, "must differ"),
        ("ask_user", {"questions": [{"question": " ", "options": ["a", "b"]}]}, "'question' must be a text"),
        ("ask_user", {"questions": [{"question": "?", "options": ["a", 1]}]}, "'options' must be an array of texts"),
        ("update_tasks", {"tasks": [{"title": "a", "status": "later"}]}, "'status' must be one of open, in_progress"),
        (
            "update_tasks",
            {"tasks": [{"title": t, "status": "in_progress"} for t in "ab"]},
            "at most one task can be in progress",
        ),
        ("submit_plan", {"steps": []}, "a plan needs at least one step"),
        ("finish_step", {}, "there is no plan under execution"),
        ("remember", {"text": ""}, "'text' must be a text that is not empty"),
        ("recall", {"query": 5}, "'query' must be a text that is not empty"),
        ("spawn_worker", {"name": "a"}, "'objective' must be a text"),
        ("spawn_worker", {"name": "a", "objective": "x", "tools": ["rm"]}, "a worker can't have rm; it may have write"),
        ("spawn_worker", {"name": "a", "objective": "x", "after": ["b"]}, "needs 'b', which is no worker before it"),
        ("spawn_worker", {"name": "a", "objective": "x", "after": ["a"]}, "needs 'a', which is no worker before it"),
    ],
)
def test_what_the_model_gets_wrong_is_told_to_it(name: str, arguments: dict[str, object], problem: str) -> None:
    """Unusable arguments of an engine tool are a result the model can read, never an exception."""
    session = Session(engine_with(WRITE, features=("questions", "tasks", "plan", "memory", "workers")))

    (again,) = calling(session, ProposedCall(name, arguments))

    assert isinstance(again, CallModel)
    ((content, status),) = session.results
    assert content.startswith("Error: ")
    assert problem in content
    assert status == "error"


# --------------------------------------------------------------------------------------------------------------- tasks


def test_the_list_of_tasks_is_kept_and_told() -> None:
    session = Session(engine_with(features=("tasks",)))
    tasks = (Task("read", "done"), Task("write", "in_progress"), Task("rest"))
    entries = [{"title": t.title, "status": t.status} for t in tasks]

    (changed, again) = calling(session, ProposedCall("update_tasks", {"tasks": entries}))

    assert TasksChanged(tasks) == changed
    assert isinstance(again, CallModel)
    assert tasks == session.state.tasks
    session(CancelAsked())
    assert session(SessionReset()) == (TasksChanged(()),)
    assert session.state.tasks == ()


# ---------------------------------------------------------------------------------------------------------------- plan


def test_while_planning_only_read_only_tools_run_from_that_very_step_on() -> None:
    """A write after ``enter_plan_mode`` in the same reply is refused already."""
    session = Session(engine_with(MULTIPLY, WRITE, features=("plan",)))

    decisions = calling(session, ProposedCall("enter_plan_mode"), ProposedCall("write"), ProposedCall("multiply"))

    assert decisions == (
        ModeSet("plan"),
        CallJudged("call-1-1-2", "deny", "", "only read-only tools run while planning"),
        CallTool(effect("1.1.1"), ToolCall("call-1-1-3", "multiply")),
    )
    session(ToolReturned(effect("1.1.1"), "6"))
    assert [status for _, status in session.results] == ["ok", "refused", "ok"]
    assert "only read-only tools run while planning" in session.results[1][0]


def test_an_approved_plan_is_executed_step_by_step_in_the_mode_of_before() -> None:
    session = Session(engine_with(WRITE, features=("plan",)))
    session(ModeChanged("careful"))
    calling(session, ProposedCall("enter_plan_mode"))
    assert session.state.mode == "plan"

    (review,) = session(replied("1.2.0", "", ProposedCall("submit_plan", {"steps": ["look", "write"]})))
    plan_changed, mode_set, _ = session(PlanReviewed(effect("1.2.1"), True))

    assert ReviewPlan(effect("1.2.1"), Plan(("look", "write"))) == review
    assert plan_changed == PlanChanged(Plan(("look", "write")))
    assert mode_set == ModeSet("careful")
    next_step, _ = session(replied("1.3.0", "", ProposedCall("finish_step")))
    assert next_step == PlanChanged(Plan(("look", "write"), 1))
    assert session.results[-1][0] == "Next step: write"
    done, _ = session(replied("1.4.0", "", ProposedCall("finish_step", {"n": 2})))
    assert done == PlanChanged(None)
    assert session.results[-1][0] == "The plan is done."
    assert session.state.plan is None


def test_entering_plan_mode_twice_is_entering_it_once() -> None:
    session = Session(engine_with(features=("plan",)))
    session(ModeChanged("careful"))

    decisions = calling(session, ProposedCall("enter_plan_mode"), ProposedCall("enter_plan_mode", {"again": True}))

    assert [d for d in decisions if isinstance(d, ModeSet)] == [ModeSet("plan")]
    assert session.state.resume_mode == "careful"


def test_a_plan_that_is_sent_back_keeps_the_mode() -> None:
    session = Session(engine_with(WRITE, features=("plan",)))
    calling(session, ProposedCall("enter_plan_mode"))
    session(replied("1.2.0", "", ProposedCall("submit_plan", {"steps": ["write"]})))

    (again,) = session(PlanReviewed(effect("1.2.1"), False, "smaller steps"))

    assert isinstance(again, CallModel)
    assert (session.state.mode, session.state.plan) == ("plan", None)
    assert session.results[-1] == ("The user wants another plan: smaller steps", "refused")
    session(CancelAsked())
    assert session(SessionReset()) == (ModeSet("default"),)


def test_a_reset_forgets_the_plan() -> None:
    session = Session(engine_with(features=("plan",)))
    calling(session, ProposedCall("submit_plan", {"steps": ["a", "b"]}))
    session(PlanReviewed(effect("1.1.1"), True, "Quickly."))
    assert session.results[-1][0].endswith("Quickly.")

    assert PlanChanged(None) in session(SessionReset())


# ---------------------------------------------------------------------------------------------------------------- mode


def test_modes_change_what_is_asked_about() -> None:
    """Careful asks about everything that is not read-only; auto asks about nothing; a denial stays a denial."""
    for mode, name, expected in (
        ("careful", "write", AskApproval),
        ("careful", "multiply", CallTool),
        ("auto", "delete", CallTool),
        ("default", "delete", AskApproval),
        ("auto", "forbidden", CallModel),
    ):
        policy = Policy((Rule("deny", "forbidden"),))
        session = Session(engine_with(MULTIPLY, WRITE, DELETE, ToolSpec("forbidden"), policy=policy))
        session(ModeChanged(mode))

        *judged, decision = calling(session, ProposedCall(name))

        assert expected is type(decision)
        assert judged == [CallJudged("call-1-1-1", "deny", "forbidden")] * (name == "forbidden")


@pytest.mark.behaviour("B25")
def test_a_mode_that_was_lowered_holds_for_calls_that_already_wait() -> None:
    """What was asked about before and is forbidden now does not run, although the user approves."""
    session = Session(engine_with(DELETE))
    calling(session, ProposedCall("delete"))

    assert session(ModeChanged("plan")) == (ModeSet("plan"),)
    judged, again = session(ApprovalGiven(effect("1.1.1")))

    assert judged == CallJudged("call-1-1-1", "deny", "", "only read-only tools run while planning")
    assert isinstance(again, CallModel)
    assert "not permitted any more: only read-only tools run while planning" in session.results[0][0]
    assert session(ModeChanged("plan")) == ()
    assert session(ModeChanged("auto")) == (ModeSet("auto"),)


@pytest.mark.parametrize(
    "before", [(), ("careful",), ("careful", "auto"), ("careful", "plan"), ("auto", "plan", "plan")]
)
def test_whoever_began_the_planning_it_ends_in_the_mode_of_before(before: tuple[Mode, ...]) -> None:
    """Also when the user asked for plans more than once."""
    session = Session(engine_with(features=("plan",)))
    for mode in (*before, "plan"):
        session(ModeChanged(mode))  # type: ignore[arg-type]  # one of the literals
    calling(session, ProposedCall("submit_plan", {"steps": ["a"]}))

    _, mode_set, _ = session(PlanReviewed(effect("1.1.1"), True))

    assert ModeSet(([mode for mode in before if mode != "plan"] or ["default"])[-1]) == mode_set


# -------------------------------------------------------------------------------------------------------------- memory


def test_notes_are_saved_and_searched() -> None:
    session = Session(engine_with(features=("memory",)))

    decisions = calling(session, ProposedCall("remember", {"text": "tea"}), ProposedCall("recall", {"query": "tea"}))
    (again,) = session(MemoryRecalled(effect("1.1.1"), ("I like tea", "tea at 5")))

    assert (Remember("tea"), Recall(effect("1.1.1"), "tea")) == decisions
    assert isinstance(again, CallModel)
    assert session.results == [("Saved.", "ok"), ("I like tea\ntea at 5", "ok")]
    session(replied("1.2.0", "", ProposedCall("recall", {"query": "milk"})))
    session(MemoryRecalled(effect("1.2.1")))
    assert session.results[-1] == ("Nothing found.", "ok")


def test_the_memory_can_be_searched_before_each_answer() -> None:
    session = Session(engine_with(recall_first=True))

    (recall,) = session(UserSpoke("Do I like tea?"))
    (ask,) = session(MemoryRecalled(effect("1.0.0"), ("I like tea",)))

    assert Recall(effect("1.0.0"), "Do I like tea?") == recall
    assert isinstance(ask, CallModel)
    assert ask.effect_id == "1.1.0"
    assert ask.request.messages[-1] == UserMessage("m2", "From your notes:\nI like tea", "engine")
    session(replied("1.1.0", "Yes."))
    session(UserSpoke("And milk?"))
    (ask,) = session(MemoryRecalled(effect("2.0.0")))
    assert isinstance(ask, CallModel)
    assert ask.request.messages[-1] == UserMessage("m4", "And milk?")


# ------------------------------------------------------------------------------------------------------------- workers


@pytest.mark.behaviour("B23")
def test_workers_run_side_by_side_and_a_dependant_waits_for_what_it_needs() -> None:
    """Results reach the parent in call order, and a worker gets the results of those it waited for."""
    session = Session(engine_with(WRITE, features=("workers",)))

    a, b = calling(session, worker("a"), worker("b"), worker("c", "a", "b"))
    assert isinstance(a, SpawnWorker)
    assert isinstance(b, SpawnWorker)
    assert ((a.worker.name, b.worker.name), a.worker.tools) == (("a", "b"), ("write",))
    assert session(WorkerFinished(effect("1.1.2"), "B", Usage(5, 5))) == ()
    (c,) = session(WorkerFinished(effect("1.1.1"), "A", Usage(1, 1)))
    assert isinstance(c, SpawnWorker)
    assert c.context == (("a", "A"), ("b", "B"))
    (again,) = session(WorkerFinished(effect("1.1.3"), "C"))

    assert isinstance(again, CallModel)
    assert session.results == [("A", "ok"), ("B", "ok"), ("C", "ok")]
    assert session.state.spent.usage == Usage(6, 6)


@pytest.mark.parametrize("event", [WorkerFailed(effect("1.1.1"), "broken"), WorkerStalled(effect("1.1.1"))])
@pytest.mark.behaviour("B23")
def test_a_failed_worker_cancels_those_that_need_it(event: WorkerFailed | WorkerStalled) -> None:
    session = Session(engine_with(WRITE, features=("workers",)))
    calling(session, worker("a"), worker("b", "a"), worker("c", "b"), worker("d"))

    session(event)
    (again,) = session(WorkerFinished(effect("1.1.2"), "D"))

    assert isinstance(again, CallModel)
    contents = [content for content, _ in session.results]
    assert "the worker failed: broken" in contents[0] or "the worker stalled: it made no progress" in contents[0]
    assert "worker 'b' is cancelled because 'a', which it needs, did not succeed" in contents[1]
    assert "worker 'c' is cancelled because 'b', which it needs, did not succeed" in contents[2]
    assert contents[3] == "D"


def test_a_worker_with_unreadable_needs_is_told_so_at_once() -> None:
    """It does not wait for the workers before it."""
    session = Session(engine_with(features=("workers",)))

    calling(session, worker("a"), ProposedCall("spawn_worker", {"name": "b", "objective": "x", "after": "a"}))
    session(WorkerFinished(effect("1.1.1"), "A"))

    assert "'after' must be an array of texts" in session.results[1][0]


def test_what_is_in_flight_can_be_asked_of_every_phase() -> None:
    session = Session(engine_with(MULTIPLY, hooks=("user_message",)))
    assert in_flight(session.state.phase) == ()
    session(UserSpoke("Go"))
    assert in_flight(session.state.phase) == ("1.0.0",)
    session(HookReturned(effect("1.0.0")))
    assert in_flight(session.state.phase) == ("1.1.0",)
    session(replied("1.1.0", "", ProposedCall("multiply", {"n": 1}), ProposedCall("multiply", {"n": 2})))
    assert in_flight(session.state.phase) == ("1.1.1", "1.1.2")


def test_two_workers_of_a_reply_have_different_names() -> None:
    session = Session(engine_with(features=("workers",)))
    calling(session, worker("a"), worker("a"))
    session(WorkerFinished(effect("1.1.1"), "A"))

    assert "two workers of this reply are named 'a'" in session.results[1][0]


@pytest.mark.behaviour("I8")
def test_a_worker_gets_what_is_left_and_never_more_than_its_parent_has() -> None:
    limits = Limits(tool_calls=5, input_tokens=100, output_tokens=10, cost=1.0, workers=3)
    session = Session(engine_with(WRITE, MULTIPLY, limits=limits, features=("workers",)))
    session(ModeChanged("careful"))
    session(UserSpoke("Go"))
    ask, *_ = session(replied("1.1.0", "", worker("a", tools=["multiply"]), usage=Usage(60, 4, cost=0.25)))
    assert isinstance(ask, AskApproval)

    (spawn,) = session(ApprovalGiven(effect("1.1.1"), always=True))

    assert isinstance(spawn, SpawnWorker)
    assert spawn.worker.tools == ("multiply",)
    assert spawn.mode == "careful"
    assert spawn.remembered == (Rule("allow", "spawn_worker"),)
    left = spawn.limits
    assert (left.tool_calls, left.input_tokens, left.output_tokens, left.cost, left.workers) == (4, 40, 6, 0.75, 2)


def test_no_more_workers_than_the_limit() -> None:
    session = Session(engine_with(features=("workers",), limits=Limits(workers=1)))
    (spawn,) = calling(session, worker("a"))
    assert isinstance(spawn, SpawnWorker)
    session(WorkerFinished(effect("1.1.1"), "A"))

    hit, final = session(replied("1.2.0", "", worker("b")))

    assert hit == LimitHit("workers", "the limit of 1 workers is reached")
    assert isinstance(final, CallModel)
    (end,) = session(replied("1.3.0", "Enough."))
    assert end == TurnFinished(LimitReached("workers", "Enough."), Usage())


@pytest.mark.behaviour("B23")
def test_cancel_reaches_workers_and_questions() -> None:
    session = Session(engine_with(features=("workers", "questions")))
    calling(session, worker("a"), ProposedCall("ask_user", {"questions": [COLOUR]}))

    decisions = session(CancelAsked())

    assert [CancelEffect(effect("1.1.1")), CancelEffect(effect("1.1.2"))] == list(decisions[:2])
    assert [status for _, status in session.results] == ["cancelled", "cancelled"]


def test_an_answer_for_another_kind_of_effect_is_rejected() -> None:
    """A tool's result can't settle a worker, nor a worker's a tool."""
    session = Session(engine_with(WRITE, features=("workers", "memory", "plan", "questions")))
    calling(session, worker("a"))
    for event in (
        ToolReturned(effect("1.1.1"), "x"),
        MemoryRecalled(effect("1.1.1")),
        PlanReviewed(effect("1.1.1"), True),
    ):
        (no,) = session(event)
        assert isinstance(no, Rejected)
    session(WorkerFinished(effect("1.1.1"), "A"))
    session(replied("1.2.0", "", ProposedCall("write")))
    for other in (
        WorkerFinished(effect("1.2.1"), "x"),
        WorkerFailed(effect("1.2.1"), "x"),
        QuestionAnswered(effect("1.2.1"), ()),
        HookReturned(effect("1.2.1")),
    ):
        (no,) = session(other)
        assert isinstance(no, Rejected)


def test_an_engine_says_which_effects_its_configuration_can_lead_to() -> None:
    """An interpreter checks at the start that it can carry all of them out."""
    base = {CallModel, CallTool, AskApproval, StartTimer}

    assert base == set(engine_with().effects)
    assert base | {Recall} == set(engine_with(recall_first=True).effects)
    everything = engine_with(features=("questions", "tasks", "plan", "memory", "workers"), hooks=("stop",))
    assert base | {AskUser, ReviewPlan, Recall, SpawnWorker, RunHook} == set(everything.effects)
