"""Replay: the same decisions again, or the first one that differs, side by side."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    Decision,
    EchoEngine,
    Failure,
    GenerationOptions,
    Input,
    Limits,
    LLMEngine,
    Policy,
    Rule,
    Transition,
    UserSpoke,
)
from cognition.base.errors import CogstepError
from interpreters import Agent, Approval, fakes, replay, tool
from interpreters.loop.driver import Driver
from interpreters.recording.journal import Journal, JournalDamagedError
from interpreters.recording.replay import ReplayDivergedError
from interpreters.testing.fakes import Reply, ScriptedModel, call
from tests.interpreters.journals import rewritten


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def record_session(path: Path) -> Agent:
    """A session with a retry, calls together, a refusal, an approval from now on, a limit, and a reset."""
    script: list[fakes.Script] = [
        Failure("slow down", kind="rate_limit"),
        Reply("I multiply.", [call("multiply", a=17, b=23), call("multiply", a=2, b=3)], reasoning="Two of them."),
        "391 and 6.",
        call("pay", amount=3),
        call("pay", amount=4),
        "Paid once.",
        "Hello again.",
    ]
    agent = Agent(
        ScriptedModel(script),
        tools=[multiply, pay],
        system="Be brief.",
        approve=fakes.ScriptedApprovals([False, Approval(True, always=True)]),
        limits=Limits(steps=4),
        journal=path,
        clock=fakes.FakeClock(1_790_000_000.0),
        fsync="never",
    )
    with agent:
        agent.run("17 * 23 and 2 * 3?")
        agent.run("Pay!")
        agent.reset()
        agent.run("Hello?")
    return agent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Agent]:
    path = tmp_path_factory.mktemp("journals") / "session.jsonl"
    return path, record_session(path)


def changed(path: Path, to: Path, number: int, change: Any) -> None:
    """A copy with one record's decisions changed."""

    def in_its_line(line: int, data: Any) -> None:
        if line == number + 1:
            change(data["decisions"])

    rewritten(path, in_its_line, to)


def test_a_recording_replays_to_the_same_decisions_and_state(recorded: tuple[Path, Agent]) -> None:
    """The engine is made again from the header; nothing else is needed."""
    path, agent = recorded
    report = replay(path)

    assert (report.same, report.divergence, report.turns, report.warnings) == (True, None, 3, ())
    assert (agent.state, agent.session, path) == (report.state, report.header.session, report.path)
    assert len(path.read_bytes().splitlines()) - 1 == report.records
    assert report is report.raise_for_divergence()


def test_one_changed_byte_is_shown_side_by_side(recorded: tuple[Path, Agent], tmp_path: Path) -> None:
    """With the record's number, its line, and where in it the difference is."""
    path, copy = recorded[0], tmp_path / "changed.jsonl"
    content = path.read_bytes()
    call_text = b'"arguments_json":"{\\"a\\": 17, \\"b\\": 23}"}}'
    assert content.count(call_text) == 1
    copy.write_bytes(content.replace(call_text, call_text.replace(b"17", b"18")))
    report = replay(copy)

    expected = (
        "record 4 (line 5) differs at decisions[0].call.arguments_json\n"
        '  recorded: "{\\"a\\": 18, \\"b\\": 23}"\n'
        '  decided:  "{\\"a\\": 17, \\"b\\": 23}"'
    )
    assert report.divergence is not None
    assert expected == str(report.divergence)
    assert (report.divergence.record, report.divergence.line, report.records, report.same) == (4, 5, 4, False)
    with pytest.raises(ReplayDivergedError, match="record 4"):
        report.raise_for_divergence()


@given(data=st.data())
def test_any_changed_byte_of_a_decision_is_found(
    recorded: tuple[Path, Agent], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A different byte is a divergence in its record, or damage in its line; it is never passed over."""
    path, copy = recorded[0], tmp_path_factory.getbasetemp() / "one_byte.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = data.draw(st.integers(1, len(lines) - 1).filter(lambda n: b'"decisions":[{' in lines[n]), "line")
    line = lines[number]
    start = line.index(b'"decisions":') + len(b'"decisions":')
    position = data.draw(st.integers(start, len(line) - 3), "position")
    byte = data.draw(st.sampled_from(b'0aZ"{}[],: \\\xc3').filter(lambda b: b != line[position]), "byte")
    lines[number] = line[:position] + bytes([byte]) + line[position + 1 :]
    copy.write_bytes(b"".join(lines))
    assert what_is_to_be_found(line, lines[number], number) == what_replay_finds(copy)


def what_is_to_be_found(line: bytes, changed_line: bytes, number: int) -> tuple[str, int]:
    try:
        record = json.loads(changed_line)
    except ValueError:
        return ("damaged", number)
    if record.keys() - {"seal"} != {"seq", "input", "decisions", "sum"} or not isinstance(record["decisions"], list):
        return ("damaged", number)
    return ("damaged" if record["decisions"] == json.loads(line)["decisions"] else "differs", number)


def what_replay_finds(path: Path) -> tuple[str, int] | None:
    try:
        divergence = replay(path).divergence
    except JournalDamagedError as error:
        return ("damaged", (error.line or 0) - 1)
    return divergence and ("differs", divergence.record)


@pytest.mark.parametrize(
    ("change", "where", "recorded_text", "decided_text"),
    [
        (lambda d: d.pop(), "decisions[1]", "(nothing)", '{"type": "start_timer"'),
        (lambda d: d.append({"type": "call_tool"}), "decisions[2]", '{"type": "call_tool"}', "(nothing)"),
        (lambda d: d[0].pop("kind"), "decisions[0].kind", "(nothing)", '"rate_limit"'),
        (lambda d: d[0].update(extra=None), "decisions[0].extra", "null", "(nothing)"),
        (lambda d: d[0].update(attempt=True), "decisions[0].attempt", "true", "2"),
        (lambda d: d[0].update(type="no_such"), "decisions[0].type", '"no_such"', '"retry_planned"'),
    ],
    ids=["missing", "more", "missing field", "more fields", "kind of value", "unknown tag"],
)
def test_each_kind_of_difference_names_its_place(
    recorded: tuple[Path, Agent], tmp_path: Path, change: Any, where: str, recorded_text: str, decided_text: str
) -> None:
    copy = tmp_path / "changed.jsonl"
    changed(recorded[0], copy, 2, change)
    divergence = replay(copy).divergence

    assert divergence is not None
    assert (2, where) == (divergence.record, divergence.field)
    _, left, right = str(divergence).split("\n")
    assert left.startswith(f"  recorded: {recorded_text}")
    assert right.startswith(f"  decided:  {decided_text}")


def test_a_changed_input_leads_to_other_decisions(recorded: tuple[Path, Agent], tmp_path: Path) -> None:
    """What the user said stands in the request's digest."""
    copy = tmp_path / "changed.jsonl"
    copy.write_bytes(recorded[0].read_bytes().replace(b"17 * 23 and 2 * 3?", b"18 * 23 and 2 * 3?"))
    divergence = replay(copy).divergence

    assert divergence is not None
    assert (divergence.record, divergence.field) == (1, "decisions[0].digest")


def test_what_was_changed_and_decides_the_same_is_damage(recorded: tuple[Path, Agent], tmp_path: Path) -> None:
    """A time that nothing hangs on, also at the record at which the replay was to stop."""
    copy = tmp_path / "changed.jsonl"
    lines = recorded[0].read_bytes().splitlines(keepends=True)
    at = lines[2].index(b'"at":') + 5
    lines[2] = lines[2][:at] + b"2" + lines[2][at + 1 :]
    copy.write_bytes(b"".join(lines))

    for to in (None, 2, 3):
        with pytest.raises(JournalDamagedError, match="line 3: the record was changed"):
            replay(copy, to=to)
    assert replay(copy, to=1).same


def test_changed_logic_shows_where_it_decides_otherwise(recorded: tuple[Path, Agent]) -> None:
    """The same recording against an engine of another configuration."""
    config = AgentConfig("Be brief.", (multiply.spec, pay.spec), limits=Limits(steps=1))
    divergence = replay(recorded[0], engine=LLMEngine(config)).divergence

    assert divergence is not None
    assert divergence.record == 6
    assert "limit_hit" in str(divergence)


RULES = Policy((Rule("allow", "mul*"), Rule("deny", "pay", "no money"), Rule("ask", "multiply(x)")))


@pytest.fixture
def ruled(tmp_path: Path) -> Path:
    """A session in which rules decide."""
    path = tmp_path / "ruled.jsonl"
    script: list[fakes.Script] = [call("multiply", a=17, b=23), call("pay", amount=3), "391, and nothing was paid."]
    with Agent(ScriptedModel(script), [multiply, pay], "Be brief.", policy=RULES, journal=path) as agent:
        agent.run("Go!")
    return path


def without_judgements(_line: int, data: Any) -> None:
    if "decisions" in data:
        data["decisions"] = [one for one in data["decisions"] if one["type"] != "call_judged"]


def test_a_recording_of_a_version_that_told_of_no_rules_replays_and_goes_on(ruled: Path) -> None:
    """The word is left out of the comparison where the recording has none."""
    told = ruled.read_bytes().count(b"call_judged")
    rewritten(ruled, without_judgements)

    assert told == 2
    assert b"call_judged" not in ruled.read_bytes()
    assert replay(ruled).same
    with Agent.resume(ruled, ScriptedModel(["Hello!"]), [multiply, pay]) as agent:
        assert agent.run("Hi!").text == "Hello!"
    other = evolve(AgentConfig("Be brief.", (multiply.spec, pay.spec), policy=RULES), options=GenerationOptions(seed=7))
    divergences = replay(ruled, engine=LLMEngine(other), every=True).divergences
    assert {divergence.field.partition("]")[2] for divergence in divergences} == {".request.options.seed"}


def test_a_word_on_a_rule_that_is_another_now_is_a_divergence(ruled: Path) -> None:
    def change(_line: int, data: Any) -> None:
        for decision in data.get("decisions", ()):
            if decision.get("action") == "deny":
                decision["rule"] = "p*"

    rewritten(ruled, change)

    divergence = replay(ruled).divergence
    assert divergence is not None
    assert (divergence.field, divergence.recorded, divergence.decided) == ("decisions[0].rule", "p*", "pay")


def test_a_torn_tail_is_a_warning_of_the_replay(recorded: tuple[Path, Agent], tmp_path: Path) -> None:
    copy = tmp_path / "torn.jsonl"
    copy.write_bytes(recorded[0].read_bytes()[:-10])
    report = replay(copy)

    assert (report.same, len(report.warnings)) == (True, 1)
    assert "torn" in report.warnings[0]


def test_a_replay_carries_nothing_out(recorded: tuple[Path, Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the driver of every session, with a table in which nothing is to be done; and not even that is asked."""
    followed: list[Driver] = []

    def hand_over(driver: Driver, decision: Decision) -> None:
        raise AssertionError("this must not be carried out")

    def restore(driver: Driver, event: Input) -> Transition:
        followed.append(driver)
        return take_over(driver, event)

    take_over = Driver.restore
    monkeypatch.setattr(Driver, "_hand_over", hand_over)
    monkeypatch.setattr(Driver, "restore", restore)

    report = replay(recorded[0])
    assert (report.same, len(followed), len(set(map(id, followed)))) == (True, report.records, 1)


def test_a_replay_touches_nothing(recorded: tuple[Path, Agent]) -> None:
    """Neither the file nor anything beside it."""
    path = recorded[0]
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))
    replay(path)

    assert before == (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))


class Counting:
    """An engine of somebody's own."""

    def step(self, state: AgentState, input: Input | None) -> Transition:
        return EchoEngine().step(state, input)


def test_engines_without_a_configuration_replay_too(tmp_path: Path) -> None:
    """Ours is known by its name, another one has to be given."""
    for name, engine in (("echo", EchoEngine()), ("own", Counting())):
        path = tmp_path / f"{name}.jsonl"
        with Journal.create(path, session="s", engine=engine) as journal:
            event = UserSpoke("hi", at=1.0)
            journal.write(event, engine.step(AgentState(), event))

    assert replay(tmp_path / "echo.jsonl").same
    assert replay(tmp_path / "own.jsonl", engine=Counting()).same
    with pytest.raises(CogstepError, match=r"Counting.*engine=.*--engine MODULE:NAME"):
        replay(tmp_path / "own.jsonl")


def test_whole_numbers_where_others_may_stand_replay(tmp_path: Path) -> None:
    """They used to be recorded as they were given, and read as other texts than these."""

    @tool(read_only=True, timeout=5, retries=(1, 2))
    def look() -> str:
        """Look."""
        return "seen"

    path = tmp_path / "whole.jsonl"
    options = GenerationOptions(temperature=1, top_p=1, logit_bias=((3, 1),))
    with Agent(ScriptedModel([call("look"), "Seen."]), tools=[look], options=options, journal=path) as agent:
        agent.run("Look.")

    assert replay(path).divergence is None
