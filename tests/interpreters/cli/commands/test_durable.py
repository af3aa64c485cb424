"""``cogstep durable``: what is typed, what is printed, and what a shell is told, of an engine that is written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import pytest

from cognition import CogstepError
from interpreters.cli.commands import durable
from interpreters.cli.main import main
from interpreters.durable.operations import (
    DrainResult,
    DurableHealth,
    DurableOperations,
    DurableRun,
    DurableVersion,
    PendingAnswer,
    RunDetails,
    RunStep,
)
from tests.interpreters.hostile_text import HOSTILE, offences

WAITS = (PendingAnswer("1.1.1", "approval", "pay"),)


class Written(DurableOperations):
    """An engine with the runs that are written down; it keeps what it is asked to do."""

    engine = "Written"

    def __init__(self, *runs: DurableRun, left: bool = False, problem: str = "") -> None:
        self._runs, self._left, self._problem = runs, left, problem
        self.asked: list[tuple[Any, ...]] = []

    def close(self) -> None:
        self.asked.append(("close",))

    def runs(self, session: str = "", *, statuses: Collection[Any] = (), newest: int = 0) -> list[DurableRun]:
        self.asked.append(("runs", session, sorted(statuses), newest))
        return list(self._runs)

    def run(self, run: str) -> RunDetails:
        return RunDetails(self._runs[0], (RunStep("begin"), RunStep("1.1.0", run, run)))

    def cancel(self, target: str, reason: str = "") -> str:
        self.asked.append(("cancel", target, reason))
        return target if ":" in target else "ada:!1"

    def retry(self, run: str) -> str:
        if self._problem:
            raise CogstepError(self._problem)
        return run

    def answer(self, session: str, effect_id: str, answer: Any) -> str:
        self.asked.append(("answer", session, effect_id, answer))
        return "ada:2"

    def drain(self, agent: str = "", *, timeout: float | None = None) -> DrainResult:
        self.asked.append(("drain", agent, timeout))
        return DrainResult(("helper",), self._runs if self._left else ())

    def undrain(self, agent: str = "") -> tuple[str, ...]:
        return ("helper",)

    def clear(self, older: float) -> int:
        self.asked.append(("clear", older))
        return 3

    def versions(self) -> list[DurableVersion]:
        return [DurableVersion("1-1", ("helper",), None, (), 1, 2, ("ada",), ("other",))]

    def check_health(self, late: float) -> DurableHealth:
        if self._problem:
            raise CogstepError(self._problem)
        return DurableHealth(True, (), (("queued", 1), ("failed", 0)), 2, 1.0, ("helper",))


Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """The exit code and what is printed."""

    def run(engine: Written, *arguments: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setattr(durable, "_operations", lambda _options: engine)
            code = main(["durable", *arguments, "--store", "sqlite:///s.db"])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def run_of(reason: str = "", **given: Any) -> DurableRun:
    return DurableRun("ada:1", "ada", "helper", "1-1", given.pop("status", "failed"), "ERROR", reason, 2, 90.0, **given)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_of_a_run_controls_the_terminal(text: str, said: Said) -> None:
    """It is one line of a list, whatever is in it; all of it is shown by `show`."""
    run = DurableRun(
        text, text, text, text, "failed", text, text, ended=1.0, waits_for=(PendingAnswer(text, "tool", text),)
    )
    engine = Written(run)
    for arguments in (["list"], ["show", "x"], ["list", "--json"], ["show", "x", "--json"], ["drain"]):
        _, out, err = said(engine, *arguments)
        assert offences((out + err).encode(), "utf-8", on_terminal=False, lines=arguments[0] != "list") == []
        if arguments[0] == "list":
            assert out.count("\n") == (1 if "--json" in arguments else 2)


def test_a_list_is_a_table_of_short_lines(said: Said) -> None:
    code, out, err = said(Written(run_of("one\ntwo " + "x" * 200)), "list")
    heads, row = (line.split() for line in out.splitlines())

    assert (code, err) == (0, "")
    assert heads == ["status", "age", "tries", "session", "agent", "version", "run", "reason"]
    assert row[:9] == ["failed", "1m", "2", "ada", "helper", "1-1", "ada:1", "one", "two"]
    assert len(" ".join(row[7:])) == durable.REASON
    assert said(Written(), "list") == (0, "", "no such runs here; --all shows the completed ones\n")


def test_what_is_listed_is_chosen(said: Said) -> None:
    engine = Written(run_of())
    said(engine, "list", "--session", "ada", "--status", "failed,refused", "--newest", "3")
    said(engine, "list", "--all")
    said(engine, "list")

    asked = [one for one in engine.asked if one[0] == "runs"]
    assert asked[0] == ("runs", "ada", ["failed", "refused"], 3)
    assert [("completed" in one[2], one[3]) for one in asked[1:]] == [(True, 100), (False, 100)]
    code, _, err = said(engine, "list", "--status", "dead")
    assert (code, "there is no status 'dead'; there are queued, " in err) == (2, True)


def test_a_run_is_shown_with_the_command_that_answers_it(said: Said) -> None:
    code, out, _ = said(Written(run_of("why", status="waiting", waits_for=WAITS, ended=5.0)), "show", "ada:1")

    assert code == 0
    assert "answer:   cogstep durable answer ada 1.1.1 ...  (approval of pay 1.1.1)\n" in out
    assert "times:    sent 1m ago, ended 5s ago; tries: 2\n" in out
    assert "status:   waiting (Written: ERROR)\n" in out
    assert "step:     begin\nstep:     1.1.0, run ada:1, failed: ada:1\n" in out


@pytest.mark.parametrize(
    ("arguments", "asked", "data", "text"),
    [
        (["cancel", "ada", "--reason", "enough"], ("cancel", "ada", "enough"), {"run": "ada:!1"},
         "ada: its turn is closed by the run ada:!1"),
        (["cancel", "ada:1"], ("cancel", "ada:1", ""), {"run": "ada:1"}, "ada:1: taken back"),
        (["answer", "ada", "1.1.1", "yes"], ("answer", "ada", "1.1.1", True), {"run": "ada:2"},
         "ada: goes on as the run ada:2"),
        (["drain", "--agent", "helper", "--timeout", "2"], ("drain", "helper", 2.0),
         {"agents": ["helper"], "running": []}, "no new runs begin: helper"),
        (["clear", "--older-than", "2h"], ("clear", 7200.0), {"deleted": 3}, "deleted: 3 runs"),
    ],
)  # fmt: skip
def test_what_is_done_is_told_as_a_line_or_as_json(
    arguments: list[str], asked: tuple[Any, ...], data: Any, text: str, said: Said
) -> None:
    engine = Written(run_of())

    assert said(engine, *arguments) == (0, f"{text}\n", "")
    assert engine.asked == [asked, ("close",)]
    code, out, _ = said(engine, *arguments, "--json")
    assert (code, json.loads(out)) == (0, data)


def test_runs_that_a_drain_leaves_are_an_exit_code(said: Said) -> None:
    code, out, err = said(Written(run_of(), left=True), "drain", "--timeout", "0")

    assert (code, out, err) == (1, "no new runs begin: helper\n", "1 run still executed: ada:1\n")
    assert said(Written(), "drain", "--undo") == (0, "runs begin again: helper\n", "")


def test_versions_health_and_metrics_are_printed(said: Said) -> None:
    assert said(Written(), "versions")[1].splitlines()[1].split() == ["1-1", "helper", "?", "1", "2", "1", "other"]
    assert json.loads(said(Written(), "versions", "--json")[1])["open"] == ["ada"]
    told = "healthy\ndrained: helper\nqueued: 1\nprocesses at work: 2\n"
    assert said(Written(), "health") == (0, told, "")
    assert said(Written(problem="away"), "health") == (1, "not healthy\n  away\n", "")
    assert json.loads(said(Written(problem="away"), "health", "--json")[1])["problems"] == ["away"]
    assert said(Written(problem="away"), "metrics")[1].splitlines()[2] == 'cogstep_durable_up{engine="written"} 0'


def test_what_can_not_be_is_one_line(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(Written(problem="there is nothing to retry"), "retry", "x") == (
        2,
        "",
        "cogstep: there is nothing to retry\n",
    )
    assert said(Written(run_of()), "retry", "ada:1") == (0, "ada:1: queued again\n", "")
    for arguments, part in (
        (["list"], "say where the sessions are: --store URL (on DBOS), or --restate URL"),
        (["clear", "--store", "sqlite:///s.db"], "--older-than"),
        (["clear", "--store", "sqlite:///s.db", "--older-than", "soon"], "expected an age such as"),
        (["drain", "--store", "sqlite:///s.db", "--timeout", "-1"], "expected a number of seconds from 0"),
        (["list", "--restate", "nowhere"], "admin has to be an address such as"),
        (["answer", "ada", "1", "yes", "--restate", "http://x:1", "--agents", "json:loads"], "is no DurableAgent"),
    ):
        assert main(["durable", *arguments]) == 2
        err = capsys.readouterr().err
        assert part in err
        assert err.count("\n") == 1
