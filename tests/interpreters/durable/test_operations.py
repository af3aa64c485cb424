"""What is said of durable runs, whatever their engine: statuses, metrics, and how a failed run is stored."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AskApproval,
    AskUser,
    CallTool,
    CogstepError,
    Completed,
    Failed,
    LimitReached,
    ToolCall,
    TurnFinished,
    Usage,
)
from cognition.values.outcomes import ErrorKind
from interpreters.cli.commands import durable as command
from interpreters.durable import operations
from interpreters.durable.operations import (
    OF_INTEREST,
    STATUSES,
    UNDER_WAY,
    DurableHealth,
    DurableRun,
    PendingAnswer,
    check_retry,
    metrics_text,
    pending_answer,
    sorted_runs,
)
from interpreters.durable.serialization import RunOutcome

LINE = re.compile(
    r'# (HELP|TYPE) cogstep_durable_[a-z_]+ .+|cogstep_durable_[a-z_]+\{([a-z]+="([^"\\\n]|\\[\\"n])*",?)+\} [0-9.e+]+'
)
"""A line of Prometheus's text format."""

TEXTS = st.text(max_size=30)

RUNS = st.builds(
    DurableRun,
    id=st.text(min_size=1, max_size=5),
    session=TEXTS,
    agent=TEXTS,
    version=TEXTS,
    status=st.sampled_from(STATUSES),
    engine_status=TEXTS,
    age=st.floats(0, 1e9),
)


@given(st.lists(RUNS, max_size=20), st.sets(st.sampled_from(STATUSES)), st.integers(0, 5))
def test_a_list_has_all_that_needs_somebody_and_the_newest_of_the_rest(
    runs: list[DurableRun], statuses: set[Any], newest: int
) -> None:
    found = sorted_runs(runs, statuses, newest)

    wanted = [one for one in runs if one.status in statuses]
    always = [one for one in wanted if one.status in UNDER_WAY or one.status == "waiting"]
    ended = sorted((one.age for one in wanted if one not in always), reverse=False)
    assert [one.age for one in found] == sorted(one.age for one in found)
    assert sorted(one.age for one in found if one in always) == sorted(one.age for one in always)
    assert sorted(one.age for one in found if one not in always) == ended[:newest]


def test_the_statuses_are_told_once() -> None:
    assert get_args(operations.RunStatus) == STATUSES == command.STATUSES
    assert set(STATUSES) - {"completed"} == OF_INTEREST


@pytest.mark.parametrize("status", STATUSES)
def test_what_is_under_way_or_has_completed_is_not_retried(status: Any) -> None:
    run = DurableRun("ada:1", "ada", "helper", "1-1", status, "", "a reason")
    if status in ("failed", "refused", "cancelled", "paused", "retrying"):
        check_retry(run)
        return
    with pytest.raises(CogstepError, match=r"nothing to retry|send a new message"):
        check_retry(run)


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(STATUSES), st.integers(0, 10**9)), max_size=9),
    st.lists(TEXTS, max_size=3),
    st.one_of(st.none(), st.integers(0, 1000)),
)
def test_metrics_are_lines_that_prometheus_reads(
    ok: bool, counts: list[Any], drained: list[str], workers: int | None
) -> None:
    health = DurableHealth(ok, (), tuple(counts), workers, 1.5, tuple(drained))
    text = metrics_text(health, "DBOS")

    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert f'cogstep_durable_up{{engine="dbos"}} {int(bool(counts))}' in lines
    assert f'cogstep_durable_healthy{{engine="dbos"}} {int(ok)}' in lines


FAILURES = st.builds(Failed, st.sampled_from(get_args(ErrorKind)), TEXTS)
OUTCOMES = st.builds(
    RunOutcome,
    at=st.floats(0.5, 2e9),
    turn=st.integers(0, 9),
    finished=st.one_of(
        st.none(),
        st.builds(
            TurnFinished,
            st.one_of(FAILURES, st.builds(Completed, TEXTS), st.builds(LimitReached, st.just("steps"))),
            st.just(Usage()),
        ),
    ),
    error=TEXTS,
)


@given(OUTCOMES)
def test_a_failed_run_is_stored_as_an_error_and_read_as_the_same_outcome(outcome: RunOutcome) -> None:
    """Also if its texts look like what is looked for in the table."""
    pytest.importorskip("dbos", reason="needs the extra `dbos`")
    from interpreters.durable.dbos._context import JsonSerializer, RunFailedError
    from interpreters.durable.dbos._run_view import REFUSED_IN_ERROR

    failed = outcome.finished is not None and isinstance(outcome.finished.outcome, Failed)
    assert bool(outcome.failure) == (bool(outcome.error) or failed)
    serializer = JsonSerializer()
    stored = serializer.serialize(RunFailedError(outcome.failure, outcome.text()))
    again = serializer.deserialize(stored)

    assert isinstance(again, RunFailedError)
    assert again.args == (outcome.failure,)
    assert RunOutcome.read(again.outcome) == outcome
    assert serializer.serialize(again) == stored
    assert (REFUSED_IN_ERROR in stored) == outcome.is_refused
    assert json.loads(stored)["error"] == outcome.failure


@given(OUTCOMES, st.sampled_from(['"pending":[{', '\\"pending\\":[{', '"error":', '\\"error\\":"', '"refused":true']))
def test_no_text_of_a_run_looks_like_a_part_of_its_outcome(outcome: RunOutcome, text: str) -> None:
    """What is asked of the database are such parts."""
    pytest.importorskip("dbos", reason="needs the extra `dbos`")
    from interpreters.durable.dbos import _run_view as view
    from interpreters.durable.dbos._context import JsonSerializer, RunFailedError

    said = RunOutcome(outcome.at, 1, TurnFinished(Completed(text), Usage()))
    stored = JsonSerializer().serialize(said.text())
    assert view.PENDING_IN_OUTPUT not in stored
    assert view.ERROR_IN_OUTPUT not in stored
    failed = JsonSerializer().serialize(RunFailedError(text, RunOutcome(1.0, 1, error=text).text()))
    assert view.REFUSED_IN_ERROR not in failed
    waits = RunOutcome(1.0, 1, None, (AskUser("1.1.1", ()),))
    assert view.PENDING_IN_OUTPUT in JsonSerializer().serialize(waits.text())
    assert view.ERROR_IN_OUTPUT in JsonSerializer().serialize(RunOutcome(1.0, error="no").text())


def test_a_pending_answer_has_no_argument_of_its_call() -> None:
    call = ToolCall("c", "pay", '{"secret":"word"}')
    told = [
        pending_answer(one)
        for one in (AskApproval("1.1.1", call, "why"), CallTool("1.1.2", call), AskUser("1.1.3", ()))
    ]

    assert told == [
        PendingAnswer("1.1.1", "approval", "pay"),
        PendingAnswer("1.1.2", "tool", "pay"),
        PendingAnswer("1.1.3", "question"),
    ]
    assert list(map(str, told)) == ["approval of pay 1.1.1", "tool of pay 1.1.2", "question 1.1.3"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (-3, "0s"), (59.4, "59s"), (60, "1m"), (7199, "1h"), (86400 * 30, "30d")]
)
def test_an_age_is_short(seconds: float, text: str) -> None:
    assert command.format_age(seconds) == text


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("yes", True),
        ("no", False),
        ("true", True),
        ('["a"]', ["a"]),
        ('"yes"', "yes"),
        ("Paris", "Paris"),
        ("1.1", 1.1),
    ],
)
def test_an_answer_is_typed_as_a_word_json_or_a_text(typed: str, answer: Any) -> None:
    assert command._read_answer(typed) == answer
