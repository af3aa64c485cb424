"""Replays of a changed configuration: which records would differ, and in which part of what the model is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.cli.test_own_tools import MY_TOOLS

REPLIES: Any = [call("price", item="plum"), "3.", "Goodbye."]


@pytest.fixture
def recorded(here: Cogstep, tmp_path: Path) -> Path:
    """Two turns with the user's own tools: six records, of which 1, 3 and 5 ask the model."""
    path = tmp_path / "my_tools.py"
    path.write_text(MY_TOOLS)
    own = ("--tools", "my_tools:TOOLS")
    here("run", "A plum?", *own, "--system", "You sell fruit.", "--record", "s.jsonl", replies=REPLIES[:2])
    assert here("resume", "s.jsonl", "Bye!", *own, replies=REPLIES[2:]).returncode == 0
    return path


SAME = [
    (),
    ("--system", "You sell fruit."),
    ("--tools", "my_tools:TOOLS"),
    ("--tools", "my_tools:make"),
    ("--protocol", "native"),
    ("--all",),
]


@pytest.mark.parametrize("options", SAME, ids=" ".join)
def test_what_is_as_recorded_makes_no_difference(options: tuple[str, ...], here: Cogstep, recorded: Path) -> None:
    done = here("replay", "s.jsonl", *options)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "s.jsonl: every decision is the same (6 records, 2 turns, 6 decisions)\n"


PARTS: list[tuple[tuple[str, ...], str, str, str]] = [
    (("--system", "You sell cars."), "system", '"You sell fruit."', '"You sell cars."'),
    (("--system", ""), "system", '"You sell fruit."', '""'),
    (("--temperature", "0.5"), "options.temperature", "null", "0.5"),
    (("--seed", "7"), "options.seed", "null", "7"),
    (("--no-thinking",), "options.thinking", "null", "false"),
    (("--tools", "my_tools:price"), "tools.order", '{"name": "order"', "(nothing)"),
    (("--tools", "my_tools:TOOLS,my_tools:plain"), "tools.plain", "(nothing)", '{"name": "plain"'),
    (("--features", "tasks"), "tools.update_tasks", "(nothing)", '{"name": "update_tasks"'),
    (("--protocol", "short_keys"), "system", '"You sell fruit."', '"You sell fruit.'),
]


@pytest.mark.parametrize(("options", "part", "before", "after"), PARTS, ids=str)
def test_the_part_that_differs_is_named(
    options: tuple[str, ...], part: str, before: str, after: str, here: Cogstep, recorded: Path
) -> None:
    """With both sides of it, in place of the digest that stands in the recording."""
    done = here("replay", "s.jsonl", *options)

    first, left, right = done.stdout.splitlines()[:3]
    assert (done.returncode, first) == (
        1,
        f"s.jsonl: record 1 (line 2) differs at decisions[0].request.{part}",
    )
    assert left.startswith(f"  recorded: {before}")
    assert right.startswith(f"  decided:  {after}")
    assert "digest" not in done.stdout


def test_every_part_is_named(here: Cogstep, recorded: Path) -> None:
    """The tools where their descriptions, schemas or flags changed, by name."""
    changed = MY_TOOLS.replace("Say what something costs.", "Say the price.").replace(
        "approval=True", "idempotent=True"
    )
    recorded.write_text(changed)

    done = here("replay", "s.jsonl", "--tools", "my_tools:TOOLS", "--system", "No.", "--max-tokens", "9")

    assert done.stdout.splitlines() == [
        "s.jsonl: record 1 (line 2) differs at decisions[0].request.system",
        '  recorded: "You sell fruit."',
        '  decided:  "No."',
        "and at decisions[0].request.tools.price.description",
        '  recorded: "Say what something costs."',
        '  decided:  "Say the price."',
        "and at decisions[0].request.tools.order.approval",
        "  recorded: true",
        "  decided:  (nothing)",
        "and at decisions[0].request.tools.order.idempotent",
        "  recorded: (nothing)",
        "  decided:  true",
        "and at decisions[0].request.options.max_tokens",
        "  recorded: null",
        "  decided:  9",
    ]


def test_all_shows_each_record_that_would_differ_and_no_other(here: Cogstep, recorded: Path) -> None:
    """Each is judged in the state in which the session was recorded: one difference brings no others along."""
    done = here("replay", "s.jsonl", "--system", "No.", "--all")
    records = [line.split(" ")[2] for line in done.stdout.splitlines() if "differs at" in line]
    assert (done.returncode, records) == (1, ["1", "3", "5"])
    assert done.stdout.endswith("s.jsonl: 3 of 6 records differ\n")

    data = json.loads(here("replay", "s.jsonl", "--system", "No.", "--all", "--json").stdout)
    assert [one["record"] for one in data["divergences"]] == [1, 3, 5]
    assert data["divergence"] == data["divergences"][0]
    assert data["divergence"]["parts"] == [
        {"field": "decisions[0].request.system", "recorded": "You sell fruit.", "decided": "No."}
    ]
    assert "divergences" not in json.loads(here("replay", "s.jsonl", "--system", "No.", "--json").stdout)


def test_other_limits_differ_where_they_bite(here: Cogstep, recorded: Path) -> None:
    """The first request is the same; the second is the last one, without tools."""
    done = here("replay", "s.jsonl", "--max-steps", "1", "--all")

    assert done.returncode == 1
    assert "record 1 " not in done.stdout
    assert "record 3 (line 4) differs at decisions[0].type" in done.stdout
    assert '"limit_hit"' in done.stdout


def test_other_logic_is_made_of_the_changed_configuration(here: Cogstep, recorded: Path) -> None:
    """And is compared in the same way."""
    Path("logic.py").write_text(
        "from attrs import evolve\nfrom cognition import LLMEngine, Policy, Rule\n"
        "def strict(config):\n    return LLMEngine(evolve(config, policy=Policy((Rule('deny', 'price'),))))\n"
    )
    done = here("replay", "s.jsonl", "--engine", "logic:strict", "--all")
    assert [line for line in done.stdout.splitlines() if line.startswith("s.jsonl: record")] == [
        "s.jsonl: record 2 (line 3) differs at decisions[0].type"
    ]
    done = here("replay", "s.jsonl", "--engine", "logic:strict", "--system", "No.", "--all")
    assert done.stdout.endswith("s.jsonl: 4 of 6 records differ\n")


def test_a_long_prompt_is_shown_from_where_it_differs(here: Cogstep, recorded: Path) -> None:
    prompt = "word " * 1500
    here("run", "Hi", "--no-tools", "--system", f"{prompt}yes", "--record", "l.jsonl", replies=["Hello."])

    done = here("replay", "l.jsonl", "--system", f"{prompt}no")

    _, left, right = done.stdout.splitlines()
    assert left.endswith('word yes"')
    assert right.endswith('word no"')
    assert left.startswith('  recorded: …"')
    assert len(left) < 100


def test_what_can_not_be_replayed_otherwise_is_one_line(here: Cogstep, recorded: Path) -> None:
    for options, expected in (
        (("--tools", "my_tools:NO"), "there is no 'NO'"),
        (("--context", "8"), ""),
        (("--system", "x", "--to", "99"), ""),
        (("--no-tools", "--tools", "my_tools:TOOLS"), "not allowed with"),
    ):
        done = here("replay", "s.jsonl", *options)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert expected in done.stderr
