"""A model that repeats itself: a call counts as repeated only if its result repeats too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from cognition import (
    ApprovalRefused,
    CallModel,
    CallTool,
    ConfigError,
    Decision,
    Image,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    MalformedToolCall,
    Policy,
    ProposedCall,
    Rule,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
)
from cognition.base.repetition import Repetition, digest, find_repetition
from cognition.steps.codec import from_data, to_data
from cognition.steps.state import AgentState
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied, worker

POLL = ToolSpec("poll", read_only=True, polls=True)
MANY = Limits(steps=100, tool_calls=None)
Round = tuple[str, str, str]
"""A call's tool and arguments, and its result."""


def notes(session: Session) -> list[str]:
    return [m.text for m in session.state.history if isinstance(m, UserMessage) and m.origin == "engine"]


def asked(decisions: Sequence[Decision]) -> str:
    """What the model was called for; empty if it was not."""
    return next((d.purpose for d in decisions if isinstance(d, CallModel)), "")


def reply_with(session: Session, rounds: Sequence[Round]) -> tuple[Decision, ...]:
    """Give the model's reply with these calls, and their results; what was decided at last."""
    turn, step = session.state.counters.turn, session.state.counters.step
    calls = [ProposedCall(name, arguments) for name, arguments, _ in rounds]
    decisions = session(replied(f"{turn}.{step}.0", "", *calls))
    for _, _, result in rounds:
        (run,) = [d for d in decisions if isinstance(d, CallTool)]
        decisions = session(ToolReturned(run.effect_id, result))
    return decisions


def talk(*replies: Sequence[Round], tools: tuple[ToolSpec, ...] = (WRITE, POLL), **limits: object) -> list[str]:
    """Play a turn, and return what the model was called for after each reply."""
    session = Session(engine_with(*tools, limits=Limits(**{"steps": 100, "tool_calls": None, **limits})))  # type: ignore[arg-type]  # of the test
    session(UserSpoke("Work"))
    return [asked(reply_with(session, rounds)) for rounds in replies]


SAME = ("write", "{}", "ok")


def test_the_same_call_with_the_same_result_warns_the_model_and_then_ends_the_turn() -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Work"))

    assert asked(reply_with(session, [("write", '{"a": 1, "b": 2}', "ok")])) == "answer"
    assert notes(session) == []
    assert asked(reply_with(session, [("write", '{"b":2,"a":1}', "ok")])) == "answer"
    assert notes(session) == [
        "The same call of write gave the same result 2 times in a row. After one more time you will have to answer "
        "without tools, so do something else or answer now."
    ]
    hit, final = reply_with(session, [("write", '{"a":1,"b":2}', "ok")])

    assert hit == LimitHit("loop", "the same calls gave the same results 3 times in a row")
    assert isinstance(final, CallModel)
    assert final.purpose == "final_answer"
    assert session.results == [("ok", "ok")] * 3
    assert len(notes(session)) == 2
    (end,) = session(replied("1.4.0", "I give up."))
    assert end == TurnFinished(LimitReached("loop", "I give up."), Usage())


@pytest.mark.behaviour("B8")
@pytest.mark.parametrize("cycle", [1, 2, 3])
def test_a_cycle_whose_results_repeat_is_warned_about_once_and_ends_the_turn(cycle: int) -> None:
    session = Session(engine_with(WRITE, limits=MANY))
    session(UserSpoke("Work"))
    rounds = [("write", f'{{"n": {n % cycle}}}', f"result {n % cycle}") for n in range(3 * cycle)]

    told = [asked(reply_with(session, [one])) for one in rounds]

    assert told == ["answer"] * (3 * cycle - 1) + ["final_answer"]
    assert len(notes(session)) == 2
    calls = "call of write gave the same result" if cycle == 1 else f"{cycle} calls gave the same results"
    assert notes(session)[0].startswith(f"The same {calls} 2 times in a row.")


def is_loop(before: str, new: str, repeats: int) -> bool:
    """The rule, told once more: the last marks are ``repeats`` rounds of one to three, and all but one are known."""
    marks = before + new
    for length in range(1, min(3, len(marks)) + 1):
        tails = [marks[-size:] for size in range(length, len(marks) + 1)]
        row = max(len(tail) for tail in tails if tail[length:] == tail[:-length])
        if row >= length * repeats and row - len(new) >= length * (repeats - 1):
            return True
    return False


@given(st.text("ab", max_size=14), st.text("ab", max_size=4), st.integers(2, 4))
def test_the_last_round_of_a_loop_comes_behind_a_warning(before: str, new: str, repeats: int) -> None:
    found = find_repetition(before, new, repeats)

    assert (found is not None and found.final) == is_loop(before, new, repeats)
    if found is not None and found.final and repeats > 2:
        known = (find_repetition(before[:end], before[end : end + 1], repeats) for end in range(len(before)))
        assert any(one is not None and not one.final for one in known)


@pytest.mark.behaviour("B8")
@settings(max_examples=15)
@given(
    st.lists(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3), max_size=10),
    st.integers(2, 4),
    st.booleans(),
)
def test_a_turn_ends_exactly_when_calls_and_results_repeat(
    replies: list[list[str]], repeats: int, as_result: bool
) -> None:
    """Each letter is a call, or the result of one and the same call."""
    session = Session(engine_with(WRITE, limits=Limits(steps=100, tool_calls=None, repeats=repeats)))
    session(UserSpoke("Work"))
    before = ""
    for letters in replies:
        rounds = [("write", "{}", one) if as_result else ("write", f'{{"n": "{one}"}}', "ok") for one in letters]
        decisions = reply_with(session, rounds)
        new = "".join(letters)
        expected = is_loop(before, new, repeats)

        assert asked(decisions) == ("final_answer" if expected else "answer")
        if expected:
            assert len(notes(session)) >= (2 if repeats > 2 else 1)  # with a warning before it
            break
        before += new


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_number_of_repeats_is_a_limit(repeats: int) -> None:
    assert talk(*[[SAME]] * repeats, repeats=repeats) == ["answer"] * (repeats - 1) + ["final_answer"]


def test_without_the_limit_a_call_may_repeat_for_ever() -> None:
    assert talk(*[[SAME]] * 20, repeats=None) == ["answer"] * 20


@pytest.mark.parametrize("repeats", [1, 0, -1, 10_001])
def test_a_limit_of_less_than_two_repeats_is_refused(repeats: int) -> None:
    with pytest.raises(ConfigError, match="repeats must be between 2 and 10000"):
        Limits(repeats=repeats)


def test_equal_calls_in_one_reply_are_warned_about_before_they_end_a_turn() -> None:
    """The model has not seen a result before it wrote the next call."""
    assert talk([SAME] * 5, [SAME]) == ["answer", "final_answer"]
    assert talk([SAME], [SAME] * 2, [SAME]) == ["answer", "answer", "final_answer"]
    assert talk([SAME] * 2, [SAME], repeats=2) == ["answer", "final_answer"]


@pytest.mark.parametrize(
    "others",
    [
        ("a" * 9000 + "1" + "b" * 9000, "a" * 9000 + "2" + "b" * 9000, "a" * 9000 + "3" + "b" * 9000),
        ("50 %", "60 %", "70 %"),
        ("\ud800", "\ud801", "\ud802"),
    ],
    ids=["shortened to the same", "short", "half characters"],
)
def test_a_call_with_another_result_is_no_repetition(others: tuple[str, ...]) -> None:
    """Results are compared as the tool gave them, also where the model sees them shortened."""
    assert talk(*[[("write", "{}", text)] for text in others * 2], tools=(WRITE,)) == ["answer"] * 6
    assert talk(*[[("write", "{}", others[0])]] * 3)[-1] == "final_answer"


def test_another_status_or_picture_is_another_result() -> None:
    def last(*answers: Input) -> str:
        session = Session(engine_with(WRITE, limits=MANY))
        session(UserSpoke("Work"))
        decisions: tuple[Decision, ...] = ()
        for step, answer in enumerate(answers, 1):
            session(replied(f"1.{step}.0", "", ProposedCall("write")))
            decisions = session(answer)
        return asked(decisions)

    def shown(number: int, byte: bytes) -> ToolReturned:
        return ToolReturned(effect(f"1.{number}.1"), "shot", images=(Image.of(b"GIF89a" + byte * 300),))

    def failed(number: int) -> ToolFailed:
        return ToolFailed(effect(f"1.{number}.1"), "x")

    def returned(number: int) -> ToolReturned:
        return ToolReturned(effect(f"1.{number}.1"), "Error: x")

    assert last(shown(1, b"a"), shown(2, b"a"), shown(3, b"a")) == "final_answer"
    assert last(shown(1, b"a"), shown(2, b"a"), shown(3, b"b")) == "answer"
    assert last(failed(1), failed(2), failed(3)) == "final_answer"
    assert last(failed(1), failed(2), returned(3)) == "answer"


def test_calls_of_a_tool_that_polls_never_count() -> None:
    """They also end a row: a model that waits may do something else in between each time."""
    poll, nap = ("poll", "{}", "running"), ("write", '{"sleep": 5}', "")

    assert talk(*[[poll]] * 9) == ["answer"] * 9
    assert talk(*[[poll], [nap]] * 9) == ["answer"] * 18
    assert talk(*[[poll, nap]] * 9) == ["answer"] * 9
    assert talk([SAME], [SAME], [SAME, poll], [SAME], [SAME], [SAME])[-3:] == ["answer", "answer", "final_answer"]


def test_a_new_turn_begins_a_new_row() -> None:
    session = Session(engine_with(WRITE))
    told = []
    for turn in (1, 2, 3):
        session(UserSpoke("Work"))
        told += [asked(reply_with(session, [SAME]))]
        session(replied(f"{turn}.2.0", "Done."))

    assert told == ["answer"] * 3


@pytest.mark.parametrize(
    ("tools", "reply", "answer"),
    [
        ((WRITE,), ProposedCall("nowhere"), None),
        ((WRITE, POLL), ProposedCall("nowhere"), None),
        ((ToolSpec("banned"),), ProposedCall("banned"), None),
        ((DELETE,), ProposedCall("delete"), ApprovalRefused),
        ((WRITE,), ProposedCall("update_tasks", {"tasks": []}), None),
        ((WRITE,), ProposedCall("finish_step"), None),
        ((WRITE,), worker("w"), WorkerFinished),
        ((WRITE,), worker("w"), WorkerFailed),
        ((WRITE,), ProposedCall("write"), ToolFailed),
    ],
)
def test_calls_count_with_their_results_however_they_came(
    tools: tuple[ToolSpec, ...], reply: ProposedCall, answer: type[Input] | None
) -> None:
    """Unknown, denied, refused and failed calls, the engine's own tools and workers."""
    session = Session(
        engine_with(
            *tools,
            limits=Limits(refusals=9),
            features=("tasks", "plan", "workers"),
            policy=Policy((Rule("deny", "banned"),)),
        )
    )
    session(UserSpoke("Work"))
    purposes = []
    for step in (1, 2, 3):
        decisions = session(replied(f"1.{step}.0", "", reply))
        if answer is not None:
            more = {} if answer is ApprovalRefused else {"message" if answer is not WorkerFinished else "text": "x"}
            decisions = session(answer(effect(f"1.{step}.1"), **more))  # type: ignore[arg-type,call-arg]  # of the test
        purposes.append(asked(decisions))

    assert purposes == ["answer", "answer", "final_answer"]
    assert len(set(session.results)) == 1


def test_unreadable_calls_beside_a_call_do_not_break_its_row() -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Work"))
    purposes = []
    for step in (1, 2, 3):
        session(replied(f"1.{step}.0", "", ProposedCall("write"), malformed=(MalformedToolCall("{", "unclosed"),)))
        purposes.append(asked(session(ToolReturned(effect(f"1.{step}.1"), "ok"))))

    assert purposes == ["repair", "repair", "final_answer"]


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ("tool_tags", "<tool>write</tool><args>{}</args>"),
        ("short_keys", '{"t": "Again", "a": "write", "i": {}}'),
    ],
)
def test_calls_written_as_text_count_too(protocol: str, text: str) -> None:
    session = Session(engine_with(WRITE, protocol=protocol))
    session(UserSpoke("Work"))
    purposes = []
    for step in (1, 2, 3):
        session(replied(f"1.{step}.0", text))
        purposes.append(asked(session(ToolReturned(effect(f"1.{step}.1"), "ok"))))

    assert purposes == ["answer", "answer", "final_answer"]


def test_a_warning_is_left_out_where_the_turn_ends_anyway() -> None:
    session = Session(engine_with(WRITE, limits=Limits(steps=2)))
    session(UserSpoke("Work"))
    reply_with(session, [SAME])

    hit, _ = reply_with(session, [SAME])

    assert isinstance(hit, LimitHit)
    assert hit.limit == "steps"
    assert len(notes(session)) == 1


def test_another_limit_of_the_calls_comes_before_the_loop() -> None:
    session = Session(engine_with(WRITE, limits=Limits(tool_calls=3, repeats=2)))
    session(UserSpoke("Work"))
    reply_with(session, [SAME])
    session(replied("1.2.0", "", *[ProposedCall("write")] * 3))
    session(ToolReturned(effect("1.2.1"), "ok"))

    hit, _ = session(ToolReturned(effect("1.2.2"), "ok"))

    assert hit == LimitHit("tool_calls", "the limit of 3 tool calls is reached")


def test_a_stored_turn_goes_on_counting() -> None:
    """What is remembered has the same size for a large call and result."""
    session = Session(engine_with(WRITE))
    session(UserSpoke("Work"))
    large = ("write", f'{{"text": "{"x" * 5000}"}}', "y" * 5000)
    reply_with(session, [large])
    reply_with(session, [large])
    session.state = from_data(to_data(session.state), AgentState)

    assert sum(map(len, session.state.spent.recent)) == 2 * 32
    assert asked(reply_with(session, [large])) == "final_answer"


def test_in_edition_1_results_are_not_looked_at() -> None:
    session = Session(engine_with(WRITE, edition=1))
    session(UserSpoke("Work"))
    reply_with(session, [("write", "{}", "1")])
    assert notes(session) == []
    reply_with(session, [("write", "{}", "2")])

    hit, final = session(replied("1.3.0", "", ProposedCall("write")))

    assert hit == LimitHit("loop", "the same calls were repeated")
    assert asked([final]) == "final_answer"
    assert len(notes(session)) == 1


@pytest.mark.parametrize(
    ("before", "new", "repeats", "expected"),
    [
        ("", "", 3, None),
        ("a", "a", 3, Repetition(1, 2, final=False)),
        ("aa", "a", 3, Repetition(1, 3, final=True)),
        ("aa", "b", 3, None),
        ("abab", "a", 3, None),
        ("aba", "b", 3, Repetition(2, 2, final=False)),
        ("ababa", "b", 3, Repetition(2, 3, final=True)),
        ("", "ababab", 3, Repetition(2, 3, final=False)),
        ("ab", "ababab", 3, Repetition(2, 4, final=False)),
        ("abab", "ababab", 3, Repetition(2, 5, final=True)),
        ("abcabcab", "c", 3, Repetition(3, 3, final=True)),
        ("abcdabcdabcd", "abcd", 3, None),
        ("a", "a", 2, Repetition(1, 2, final=True)),
        ("", "aa", 2, Repetition(1, 2, final=False)),
        ("aaa", "a", 5, Repetition(1, 4, final=False)),
        ("aaaa", "a", 5, Repetition(1, 5, final=True)),
    ],
)
def test_a_repetition_is_found_with_its_length_and_rounds(
    before: str, new: str, repeats: int, expected: Repetition | None
) -> None:
    assert expected == find_repetition(before, new, repeats)


@given(st.lists(st.text()), st.lists(st.text()))
def test_a_digest_tells_texts_apart(one: list[str], other: list[str]) -> None:
    """Also where they are the same text in other pieces."""
    assert (digest(*one) == digest(*other)) == (one == other)
    assert len(digest(*one)) == 32


def test_the_last_words_of_a_limit_name_it() -> None:
    session = Session(engine_with(MULTIPLY, limits=Limits(repeats=2)))
    session(UserSpoke("Work"))
    for _ in range(2):
        reply_with(session, [("multiply", "{}", "6")])

    assert notes(session) == [
        "Stop calling tools now (the same calls gave the same results 2 times in a row). Answer with what you know."
    ]
