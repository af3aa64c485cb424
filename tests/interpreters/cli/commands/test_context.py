"""``cogstep context`` and ``/context``: what is typed, what is printed, and what a shell is told."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from cognition import Candidate, Usage, UserSpoke
from interpreters import Agent, tool
from interpreters.testing.fakes import Reply, ScriptedModel, call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.journals import replaced
from tests.interpreters.templated import FALLBACK_TEMPLATE, CountingModel, counting_by


@tool(read_only=True)
def look(size: int) -> str:
    """Look at something of this size."""
    return "y" * size


def record(path: Path, *turns: tuple[str, list[int]], context_tokens: int = 2048) -> None:
    replies: list[list[Any]] = [
        [*[call("look", size=size) for size in sizes], Reply(f"Done: {text}", usage=Usage(1234, 5, 1000))]
        for text, sizes in turns
    ]
    model = ScriptedModel(chain.from_iterable(replies), context_tokens=context_tokens)
    with Agent(model, tools=[look], system="Be brief.", journal=path, compact_at=None) as agent:
        for text, _ in turns:
            agent.run(text)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Three turns in a context that is too small for them."""
    record(tmp_path / "s.jsonl", ("One?", [900, 901]), ("Two?", [900, 901]), ("Three?", [900]))
    return tmp_path / "s.jsonl"


def test_all_requests_are_a_table_and_the_last_one_is_shown(here: Cogstep, recorded: Path) -> None:
    """One line each: what it took of its budget, what was shortened or left out, what was measured."""
    done = here("context", "s.jsonl")
    heads, *rows = done.stdout.partition("\n\n")[0].splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert heads.split() == [
        *("request", "step", "purpose", "messages", "tokens", "budget", "share"),
        *("shortened", "summarised", "left", "out", "measured", "reused"),
    ]
    assert [row.split()[1] for row in rows] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "3.1", "3.2"]
    assert [row.split()[-2:] for row in rows[1:3]] == [["-", "-"], ["1,234", "1,000"]]
    assert "request 8 of 8: step 3.2, answer, record 15" in done.stdout
    assert "; left out: " in done.stdout
    assert "left out: whole turns go, oldest first" in done.stdout


def test_one_request_is_shown_message_by_message(here: Cogstep, recorded: Path) -> None:
    """By its number or its step; the same as JSON."""
    done = here("context", "s.jsonl", "--step", "1.3")

    assert done.stdout == here("context", "s.jsonl", "--step", "3").stdout
    for expected in (
        "request 3 of 8: step 1.3, answer, record 5",
        "budget    1,536 tokens for the prompt, of a context of 2,048",
        "1,234 tokens, 1,000 of them reused; 5 written; replied",
        "for 1 tool: look",
        "m3       1     tool          308  whole  look: yyyyy",
        'calls look({"size": 900})',
    ):
        assert expected in done.stdout
    data = json.loads(here("context", "s.jsonl", "--step", "1.3", "--json").stdout)
    assert (data["request"], data["step"], data["shown"], data["left_out"]) == (3, "1.3", 5, 0)
    assert [one["role"] for one in data["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert data["used"] + data["remaining"] == data["budget"] == 1536
    lines = [json.loads(line) for line in here("context", "s.jsonl", "--json").stdout.splitlines()]
    assert [one["step"] for one in lines][-1] == "3.2"
    assert {name: value for name, value in lines[2].items() if data[name] != value} == {}


def test_a_prompt_is_the_text_of_a_template_or_a_plain_form_that_says_so(here: Cogstep, recorded: Path) -> None:
    """The recording does not know its model; nothing but the prompt is on stdout."""
    plain = here("context", "s.jsonl", "--step", "1.2", "--prompt")
    assert plain.stdout.startswith("[system]\nBe brief.\n\n[tools]\n")
    assert "[tool look, call call-1-1-1]\nyyyy" in plain.stdout
    assert "this is a plain form that no model was given" in plain.stderr

    shipped = here("context", "s.jsonl", "--step", "1.2", "--prompt", "--model")
    assert (shipped.returncode, shipped.stderr) == (0, "")
    assert shipped.stdout.startswith("<|im_start|>system\nBe brief.")
    assert "<tool_response>\nyyyy" in shipped.stdout
    assert shipped.stdout.endswith("<|im_start|>assistant\n")

    (recorded.parent / "own.jinja").write_text(
        "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}{{ strftime_now('%Y') }}"
    )
    own = here("context", "s.jsonl", "--step", "1.1", "--prompt", "--model", "own.jinja", "--json")
    prompt = json.loads(own.stdout)["prompt"]
    assert prompt["template"] == "own.jinja"
    assert prompt["text"].startswith("system=Be brief.;user=One?;20")
    gone = here("context", "s.jsonl", "--prompt", "--model", "nowhere")
    assert (2, "there is no file or directory nowhere" in gone.stderr) == (gone.returncode, True)


def test_sections_are_shown_with_what_became_of_each_candidate(here: Cogstep, tmp_path: Path) -> None:
    """Its relevance, its size, and why it is in or not."""
    context = (
        Candidate("identity", "You are a baker.", "IDENTITY.md"),
        Candidate("memory", "Ada likes plums.", "notes/2.md"),
        Candidate("skills", "How to find a lantern. " * 500, "skills/find.md"),
    )
    with Agent(ScriptedModel(["In the cellar."]), journal=tmp_path / "s.jsonl") as agent:
        agent.run(UserSpoke("Where is the lantern?", context=context))
    lines = here("context", "s.jsonl", "--step", "1").stdout.splitlines()

    assert [line.split()[:3] for line in lines if ".md" in line][:3] == [
        ["identity", "IDENTITY.md", "1.00"],
        ["memory", "notes/2.md", "0.00"],
        ["skills", "skills/find.md", "1.00"],
    ]
    assert any("left out  it has no word of the message" in line for line in lines)
    assert any("of 3,833  trimmed" in line for line in lines)
    assert any("extended: sections of the turn stand in front of it" in line for line in lines)
    data = json.loads(here("context", "s.jsonl", "--step", "1", "--json").stdout)
    assert [one["shown"] for one in data["candidates"]] == ["included", "left_out", "trimmed"]
    assert [one["name"] for one in data["sections"]] == ["identity", "instructions", "memory", "skills", "history"]
    assert data["sections_tokens"] > 0


def test_sizes_that_were_counted_are_said_to_be_at_most_so_large(here: Cogstep, tmp_path: Path) -> None:
    """In the facts, the messages and the differences; what was measured is no more."""
    model = CountingModel(counting_by(FALLBACK_TEMPLATE), lambda _request: iter(["Done: 1234567890."]))
    with Agent(model, journal=tmp_path / "s.jsonl") as agent:
        agent.run("One? 3.14159265358979")
        agent.run("Two?")
    one = here("context", "s.jsonl", "--step", "last").stdout
    data = json.loads(here("context", "s.jsonl", "--step", "last", "--json").stdout)

    assert (data["counted"], model.sizes[-1] <= data["used"] <= data["budget"]) == (True, True)
    assert f"used      at most {data['used']:,} tokens" in one
    assert "before    at most " in one
    assert "messages  3 of at most " in one
    assert "about" not in one
    assert "  tokens   at most " in here("context", "s.jsonl", "--diff", "1", "2").stdout


def test_a_difference_says_what_came_went_and_was_kept(here: Cogstep, recorded: Path) -> None:
    grown = here("context", "s.jsonl", "--diff", "1.1", "1.2")
    assert "from request 1 (step 1.1, answer) to request 2 (step 1.2, answer)" in grown.stdout
    assert "kept     the first 1 of 1 messages" in grown.stdout
    assert "100 % of the first request" in grown.stdout
    assert "+  m3" in grown.stdout

    data = json.loads(here("context", "s.jsonl", "--diff", "3", "last", "--json").stdout)
    assert (data["before"]["step"], data["after"]["step"], data["changed_parts"]) == ("1.3", "3.2", [])
    assert data["kept_share"] < 0.5
    assert {one["shown"] for one in data["gone"]} == {"whole"}
    cut = here("context", "s.jsonl", "--diff", "3", "last").stdout
    assert "-  m1" in cut
    assert "kept     none of 5 messages" in cut


def test_what_can_not_be_shown_is_said_in_a_line(here: Cogstep, recorded: Path) -> None:
    for arguments, expected in (
        (("--step", "9.9"), "there is no request 9.9; its 8 end with step 3.2"),
        (("--step", "0"), "expected a number from 1, TURN.STEP such as 3.2, or last, not '0'"),
        (("--diff", "1", "2", "--step", "1"), "--diff compares two requests by itself"),
        (("--step", "1", "--model", "x"), "--model is for --prompt"),
    ):
        done = here("context", "s.jsonl", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert expected in done.stderr
    assert "no such file" in here("context", "no.jsonl").stderr
    (recorded.parent / "text.jsonl").write_text("hello\n")
    assert "this is no cogstep journal" in here("context", "text.jsonl").stderr


def test_a_damaged_recording_shows_nothing(here: Cogstep, recorded: Path) -> None:
    """As in every command; one that was torn by a crash is shown, with a warning."""
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:4]) + lines[4][:30])
    torn = here("context", "s.jsonl")
    assert (torn.returncode, "the last record is torn" in torn.stderr) == (0, True)
    assert "no answer is recorded" in torn.stdout

    recorded.write_bytes(b"".join(lines).replace(b"Two?", b"Too?"))
    damaged = here("context", "s.jsonl")
    assert (damaged.returncode, damaged.stdout) == (2, "")
    assert "the record was changed after it was written" in damaged.stderr


def test_what_was_not_asked_is_never_passed_off(here: Cogstep, recorded: Path) -> None:
    """A recording whose digests are others than this engine's: told, and the exit code tells too."""
    replaced(recorded, "Be brief.", "Be brief!")
    done = here("context", "s.jsonl")

    assert done.returncode == 1
    assert "asks the model something else than was recorded from record 1 on" in done.stderr
    assert "! this is not the request that was sent" in done.stdout


def test_a_recording_in_which_no_model_was_asked(here: Cogstep, tmp_path: Path) -> None:
    with Agent(ScriptedModel([]), journal=tmp_path / "s.jsonl"):
        pass
    done = here("context", "s.jsonl")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "s.jsonl: the model was never asked\n")


def test_a_chat_shows_what_the_model_was_shown_last(here: Cogstep) -> None:
    """Before the first message that there is nothing to show; then as ``cogstep context`` does."""
    replies = [call("calculate", expression="17 * 23"), Reply("391.", usage=Usage(200, 3, 150))]
    done = here("chat", "--record", "s.jsonl", input="/context\n17 * 23?\n/context\n", replies=replies)

    assert done.returncode == 0
    assert "the model was not asked yet" in done.stderr
    assert "request 2: step 1.2, answer" in done.stderr
    assert "200 tokens, 150 of them reused; 3 written; replied" in done.stderr
    recorded = here("context", "s.jsonl", "--step", "last").stdout
    ours = done.stderr[done.stderr.index("request 2: step") :]
    assert recorded.splitlines()[1:] == ours.splitlines()[1:]
