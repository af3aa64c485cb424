"""Every hostile line runs for real, in bash and in dash: each attack of the tables is confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.cognition.policy.evading import BEYOND, OWN_WAYS, TRICKS, UNCOVERED, UNSEEN
from tests.cognition.policy.hostile import MAY_RUN_ANY, REMOVES, RUNS_CURL, Kind
from tests.cognition.policy.running import Outcome, Sandbox, Trial, missing, reason_not_to_run, run_all

TABLES: Mapping[str, Mapping[str, Kind]] = {
    "curl": RUNS_CURL,
    "removal": REMOVES,
    "any": MAY_RUN_ANY,
    "own ways": OWN_WAYS,
    "tricks": TRICKS,
    "unseen": UNSEEN,
    "uncovered": UNCOVERED,
    "beyond": BEYOND,
}
KINDS = [(table, name) for table, kinds in TABLES.items() for name in kinds]
LEAST_KINDS, LEAST_LINES = 30, 400


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    if (reason := reason_not_to_run()) is not None:
        pytest.skip(reason)
    return Sandbox(tmp_path_factory.mktemp("hostile") / "box")


def run_lines(sandbox: Sandbox, kind: Kind, lines: Sequence[str]) -> list[tuple[str, dict[str, Outcome]]]:
    """Run those lines of a kind whose programs this machine has."""
    tried = [line for line in lines if not missing(line)]
    trials = [Trial(line, kind.before, kind.given, kind.variables, kind.terminal, kind.seconds) for line in tried]
    outcomes = run_all(sandbox, trials)
    return [(line, {shell: outcomes[shell][number] for shell in outcomes}) for number, line in enumerate(tried)]


@pytest.mark.parametrize(("table", "name"), KINDS)
@pytest.mark.behaviour("B10")
def test_each_line_does_in_both_shells_what_its_table_says(sandbox: Sandbox, table: str, name: str) -> None:
    kind = TABLES[table][name]
    idle = {line for lines in kind.idle.values() for line in lines}
    shells = {line: {"bash", "dash"} for line in kind.lines} | {line: {"bash"} for line in kind.bash}
    shells |= {line: {"dash"} for line in kind.dash}
    ran = run_lines(sandbox, kind, kind.all)

    denied = {line: {shell for shell, one in outcomes.items() if one.denied} for line, outcomes in ran}
    harmless = [
        line
        for line, outcomes in ran
        if line in kind.other and not any(one.other or one.changed for one in outcomes.values())
    ]

    assert denied == {line: shells.get(line, set()) for line in denied}
    assert idle.isdisjoint(shells)
    assert harmless == []


def test_a_program_that_is_run_is_noted_with_its_words(sandbox: Sandbox) -> None:
    trials = [Trial("curl 'a b'; sort f; echo > new"), Trial("true"), Trial("cat f | sh", given="x")]
    outcomes = run_all(sandbox, trials)

    for shell in ("bash", "dash"):
        first, second, third = outcomes[shell]
        assert first.denied == ("curl a b",)
        assert first.other == ("sort f",)
        assert first.changed == ("/srv/app/new",)
        assert (second.denied, second.other, second.changed) == ((), (), ())
        assert third.denied == ("curl x",)


def test_a_line_that_does_not_end_is_stopped_with_all_that_it_started(sandbox: Sandbox) -> None:
    line = "(sleep 1000 &) ; (setsid sleep 1000 &); while :; do :; done"
    slow, quick = sandbox.run("dash", [Trial(line, seconds=0.05), Trial("curl x")])

    assert not slow.ended
    assert quick.ended
    assert quick.denied == ("curl x",)


def test_a_line_reaches_nothing_of_the_machine(sandbox: Sandbox) -> None:
    lines = ("/real/touch /usr/x", "/real/touch /real/x", "/real/rm -rf /usr /real /template", "echo > /inside.py")
    outcomes = sandbox.run("bash", [Trial(line) for line in lines])

    assert [one.changed for one in outcomes] == [()] * len(lines)
    assert all("Read-only file system" in one.errors or "Permission denied" in one.errors for one in outcomes)
    assert (sandbox.folder / "bin" / "curl").exists()


def test_there_are_many_lines_of_many_kinds() -> None:
    lines = [line for kinds in TABLES.values() for kind in kinds.values() for line in kind.all]

    assert len({name for _, name in KINDS}) >= LEAST_KINDS
    assert len(set(lines)) == len(lines) >= LEAST_LINES
    assert all(reason for kinds in TABLES.values() for kind in kinds.values() for reason in kind.idle)
