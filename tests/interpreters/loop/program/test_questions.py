"""What the program is asked beside approvals: questions, plans, hooks, notes. The same for every way of running."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Cancelled, Completed, ConfigError, Plan, Question
from interpreters import (
    Agent,
    AsyncAgent,
    HookAnswer,
    HookRequest,
    PlanAnswer,
    PlanRequest,
    QuestionRequest,
    events,
    fakes,
    replay,
    tool,
)
from interpreters.loop.program.questions import chosen_options
from interpreters.testing.fakes import ScriptedModel, call
from runtime import Notes
from tests.interpreters.ways import Way, every_way

COLOUR = {"question": "Which colour?", "options": ["red", "blue"]}
SIZES = {"question": "Which sizes?", "options": ["S", "M", "L"], "multiple": True}


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


# -------------------------------------------------------------------------------------------------------- questions


@every_way
def test_the_user_is_asked_what_the_model_wants_to_know(talk: Way) -> None:
    """The questions come whole, and the model reads what was chosen."""
    asked: list[QuestionRequest] = []

    def ask(request: QuestionRequest) -> Any:
        asked.append(request)
        return ["red", ["S", "L"]]

    model = ScriptedModel([call("ask_user", questions=[COLOUR, SIZES]), "Red, S and L."])
    done = talk(model, "Order!", features=["questions"], ask=ask, session="s")

    assert done.texts == ["Red, S and L."]
    assert done.tool_results == [("Which colour? red\nWhich sizes? S, L", "ok")]
    expected = (Question("Which colour?", ("red", "blue")), Question("Which sizes?", ("S", "M", "L"), True))
    assert [(expected, "s")] == [(request.questions, request.session) for request in asked]


@every_way
def test_a_user_who_does_not_answer_ends_the_turn(talk: Way) -> None:
    """As cancelled: the model must not go on as if it had been told. Nor where asking itself fails."""
    questions = call("ask_user", questions=[COLOUR])
    warned: list[str] = []

    def broken(request: QuestionRequest) -> Any:
        raise OSError("the window is gone")

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            warned.append(event.value.message)

    said = talk(ScriptedModel([questions]), "Order!", features=["questions"], ask=lambda request: None)
    failed = talk(ScriptedModel([questions]), "Order!", features=["questions"], ask=broken, observers=[watch])

    assert said.results[0].outcome == Cancelled("the user did not answer the model's questions")
    assert failed.results[0].outcome == Cancelled("the user could not be asked")
    assert warned == ["the program could not ask the user: the window is gone"]


@every_way
def test_answers_that_do_not_fit_are_the_program_s_own_fault(talk: Way) -> None:
    for wrong in (["red", "blue"], "red", [["red", "blue"]], [[]], [1], 5):
        model = ScriptedModel([call("ask_user", questions=[COLOUR])])
        with pytest.raises(ConfigError, match=r"one answer for each|exactly one"):
            talk(model, "Order!", features=["questions"], ask=lambda request, wrong=wrong: wrong)


@given(st.lists(st.booleans(), min_size=1, max_size=4), st.data())
def test_every_fitting_choice_is_read(multiple: list[bool], data: st.DataObject) -> None:
    """One option as a text or alone in a list, several where several are allowed."""
    options = ("a", "b", "c")
    questions = tuple(Question(f"{n}?", options, many) for n, many in enumerate(multiple))
    chosen = [
        tuple(data.draw(st.lists(st.sampled_from(options), min_size=1, max_size=3 if many else 1, unique=True)))
        for many in multiple
    ]
    given_back = [picked[0] if len(picked) == 1 and data.draw(st.booleans()) else list(picked) for picked in chosen]

    assert tuple(chosen) == chosen_options(questions, given_back)


# ------------------------------------------------------------------------------------------------------------ plans


@every_way
def test_a_plan_is_reviewed_and_carried_out(talk: Way) -> None:
    """Sent back once with feedback, then approved; outside of the plan nothing but looking runs."""
    seen: list[Plan] = []

    def review(request: PlanRequest) -> Any:
        seen.append(request.plan)
        return PlanAnswer(False, "pay less") if len(seen) == 1 else True

    model = ScriptedModel(
        [
            call("enter_plan_mode"),
            call("pay", amount=9),
            call("submit_plan", steps=["pay 9"]),
            call("submit_plan", steps=["pay 5"]),
            call("pay", amount=5),
            call("finish_step"),
            "Paid.",
        ]
    )
    done = talk(model, "Pay!", tools=[pay], features=["plan"], review=review)

    assert (done.texts, done.state.plan) == (["Paid."], None)
    assert seen == [Plan(("pay 9",)), Plan(("pay 5",))]
    assert [status for _, status in done.tool_results] == ["ok", "refused", "refused", "ok", "ok", "ok"]
    assert done.tool_results[2][0] == "The user wants another plan: pay less"


@every_way
def test_a_plan_that_nobody_could_see_is_not_approved(talk: Way) -> None:
    def broken(request: PlanRequest) -> Any:
        raise OSError("the window is gone")

    model = ScriptedModel([call("submit_plan", steps=["pay"]), "I stop."])
    done = talk(model, "Pay!", features=["plan"], review=broken)

    assert done.tool_results == [("The user wants another plan: the user could not be asked", "refused")]
    with pytest.raises(ConfigError, match="review has to return"):
        talk(ScriptedModel([call("submit_plan", steps=["pay"])]), "Pay!", features=["plan"], review=lambda r: "yes")


# ------------------------------------------------------------------------------------------------------------ hooks


@every_way
def test_hooks_are_asked_at_each_of_their_points(talk: Way) -> None:
    """In order, each with what it is about."""
    asked: list[tuple[str, str, str | None]] = []

    def hook(request: HookRequest) -> HookAnswer | None:
        asked.append((request.point, request.text, request.call and request.call.arguments_json))
        match request.point:
            case "before_tool":
                return HookAnswer(arguments={"amount": 1}, context="The amount was capped.")
            case "stop" if len(asked) < 6:
                return HookAnswer("go_on", "say it in French")
            case _:
                return None

    points = ("session_start", "user_message", "before_tool", "after_tool", "stop")
    model = ScriptedModel([call("pay", amount=5), "Paid.", "Payé."])
    done = talk(model, "Pay!", tools=[pay], hooks=dict.fromkeys(points, hook))

    assert done.texts == ["Payé."]
    assert done.tool_results == [("paid 1\nThe amount was capped.", "ok")]
    assert asked == [
        ("session_start", "Pay!", None),
        ("user_message", "Pay!", None),
        ("before_tool", "", '{"amount": 5}'),
        ("after_tool", "paid 1", '{"amount": 1}'),
        ("stop", "Paid.", None),
        ("stop", "Payé.", None),
    ]


@every_way
def test_a_hook_that_fails_refuses(talk: Way) -> None:
    """Hooks guard: where they can't be asked, nothing happens."""

    def broken(request: HookRequest) -> HookAnswer | None:
        raise OSError("the rules can't be read")

    def never(amount: int) -> str:
        raise AssertionError("this must not run")

    unpaid = talk(
        ScriptedModel([call("pay", amount=5), "No."]),
        "Pay!",
        tools=[tool(name="pay")(never)],
        hooks={"before_tool": broken},
    )
    unheard = talk(ScriptedModel([]), "Pay!", hooks={"user_message": broken})

    assert unpaid.tool_results == [("Error: a hook refused this call: the hook failed", "refused")]
    assert unheard.results[0].outcome == Cancelled("a hook refused the message: the hook failed")
    with pytest.raises(ConfigError, match="the hook stop has to return"):
        talk(ScriptedModel(["Hello!"]), "Hi!", hooks={"stop": lambda request: True})


# ------------------------------------------------------------------------------------------------------------ notes


@every_way
def test_what_is_remembered_is_recalled(talk: Way) -> None:
    """In the same turn, and before each message where the program wants that."""
    with Notes() as notes:
        model = ScriptedModel(
            [
                [call("remember", text="The user's cat is named Miu."), call("recall", query="cat")],
                "Miu.",
                "Miu, as I said.",
            ]
        )
        done = talk(model, "My cat is Miu.", "My cat's name?", features=["memory"], memory=notes, recall_first=True)

    assert done.texts == ["Miu.", "Miu, as I said."]
    assert done.tool_results == [("Saved.", "ok"), ("The user's cat is named Miu.", "ok")]
    texts = [getattr(message, "text", "") for message in done.state.history]
    assert [text for text in texts if "notes" in text] == ["From your notes:\nThe user's cat is named Miu."]


@every_way
def test_a_memory_that_fails_is_a_warning(talk: Way) -> None:
    """Nothing is found, and the turn goes on."""

    class Broken:
        def remember(self, text: str) -> None:
            raise OSError("the disk is full")

        def recall(self, query: str) -> list[str]:
            raise OSError("the disk is gone")

    warned: list[str] = []

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            warned.append(event.value.message)

    model = ScriptedModel([call("remember", text="x"), call("recall", query="x"), "Well."])
    done = talk(model, "Hi!", features=["memory"], memory=Broken(), observers=[watch])

    assert (done.texts, done.tool_results[1]) == (["Well."], ("Nothing found.", "ok"))
    assert sorted(warned) == [
        "a note could not be saved: the disk is full",
        "the program could not search the notes: the disk is gone",
    ]


# ------------------------------------------------------------------------------------------------- what all of it is


@every_way
def test_what_can_t_be_carried_out_is_refused_at_the_start(talk: Way, tmp_path: Any) -> None:
    """By name, before anything is recorded."""
    journal = tmp_path / "session.jsonl"
    with pytest.raises(ConfigError, match=r"missing ask=.*, review=.*, memory="):
        talk(ScriptedModel([]), features=["questions", "plan", "memory"], journal=journal)
    assert not journal.exists()


@every_way
def test_answers_may_come_from_elsewhere(talk: Way, tmp_path: Any) -> None:
    """Each callable may give a ``Future``; the recording is what it would be otherwise."""

    def soon(value: Any) -> Any:
        future: Future[Any] = Future()
        future.set_result(value)
        return lambda request: future

    def script() -> ScriptedModel:
        return ScriptedModel(
            [call("ask_user", questions=[COLOUR]), call("submit_plan", steps=["a"]), call("pay", amount=1), "Done."]
        )

    options: dict[str, Any] = {"tools": [pay], "features": ["questions", "plan"], "session": "s"}
    paths = tmp_path / "soon.jsonl", tmp_path / "now.jsonl"
    talk(
        script(),
        "Go!",
        **options,
        ask=soon(["red"]),
        review=soon(True),
        hooks={"before_tool": soon(None)},
        journal=paths[0],
        clock=fakes.FakeClock(),
    )
    talk(
        script(),
        "Go!",
        **options,
        ask=lambda request: ["red"],
        review=lambda request: True,
        hooks={"before_tool": lambda request: None},
        journal=paths[1],
        clock=fakes.FakeClock(),
    )

    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert replay(paths[0]).same


def test_under_asyncio_every_callable_may_be_async() -> None:
    """And in a session without an event loop such a one is refused with words that say what to do."""

    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    @tool(approval=True, name="pay")
    async def paid(amount: int) -> str:
        return f"paid {await later(amount)}"

    async def main() -> Any:
        model = ScriptedModel(
            [call("ask_user", questions=[COLOUR]), call("submit_plan", steps=["a"]), call("pay", amount=1), "Done."]
        )
        async with AsyncAgent(
            model,
            [paid],
            features=["questions", "plan"],
            ask=lambda request: later(["red"]),
            review=lambda request: later(True),
            approve=lambda request: later(True),
            hooks={"stop": lambda request: later(None)},
        ) as agent:
            return (await agent.run("Go!")).outcome

    assert asyncio.run(main()) == Completed("Done.")
    for options in ({"approve": lambda request: later(True)}, {"hooks": {"before_tool": lambda request: later(None)}}):
        with (
            pytest.raises(ConfigError, match="needs an AsyncAgent"),
            Agent(ScriptedModel([call("pay", amount=1)]), [paid], **options) as agent,
        ):
            agent.run("Go!")
