"""``--agent MODULE:NAME``: sessions with all that an embedding program gives to its agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cognition import Limits, ModelRequest
from interpreters import replay
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted

SHOP = '''
from cognition import GenerationOptions, Limits, Policy, Rule
from interpreters import HookAnswer, ToolContext, fakes, tool

@tool(idempotent=True)
def stock(item: str, context: ToolContext[dict]) -> int:
    """Say how many there are."""
    return context.deps[item]

@tool
def sell(item: str) -> str:
    """Sell something."""
    with open("sold", "a") as file:
        file.write(item)
    return f"{item} is sold"

def before(request):
    return HookAnswer("refuse", "not on Sundays") if request.call.name == "sell" else None

def approve(request):
    return request.call.arguments["item"] == "plum"

AGENT = {
    "tools": [stock, sell],
    "system": "You sell fruit.",
    "deps": {"plum": 7},
    "hooks": {"before_tool": before},
    "limits": Limits(tool_calls=5),
    "options": GenerationOptions(seed=3),
}
SMALL = fakes.FunctionModel(lambda request: "Small.")
SEVERAL = {"tools": [], "models": {"small": SMALL}, "routes": {"answer": "small"}}
ASKING = {"tools": [sell], "policy": Policy((Rule("ask", "sell"),)), "approve": approve}

def make():
    return AGENT

def fail():
    raise KeyError("no such shop")

LIST = [stock]
WRONG = {"tool": [stock]}
JOURNAL = {"journal": "x.jsonl"}
NUMBER = {3: 4}
BAD = {"tools": "stock"}
LIMITS = {"limits": {"steps": 3}}
'''
AGENT = ("--agent", "shop:AGENT")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)


def result(request: ModelRequest) -> str:
    return str(getattr(request.messages[-1], "content", ""))


def recorded(here: Cogstep, *replies: Any) -> None:
    done = here("run", "A plum?", *AGENT, "--record", "s.jsonl", replies=replies)
    assert done.returncode == 0, done.stderr


def test_a_program_is_run_with_its_tools_prompt_hooks_and_dependencies(here: Cogstep, tmp_path: Path) -> None:
    """What the command line says besides holds in its place, or in addition."""
    recorded(here, call("stock", item="plum"), call("sell", item="plum"), result)
    report = replay(tmp_path / "s.jsonl").raise_for_divergence()
    config = report.header.config
    assert config is not None
    assert (config.system, config.hooks, config.limits) == ("You sell fruit.", ("before_tool",), Limits(tool_calls=5))
    contents = [message.content for message in report.state.history if hasattr(message, "content")]
    assert contents[0] == "7"
    assert "not on Sundays" in contents[1]
    assert not (tmp_path / "sold").exists()

    more = ("--system", "Brief.", "--max-steps", "2", "--top-k", "9", "--ask", "--tools", "calculate")
    here("run", "?", *AGENT, *more, "--record", "m.jsonl", replies=["Hello."])
    config = replay(tmp_path / "m.jsonl").header.config
    assert config is not None
    assert (config.system, config.limits) == ("Brief.", Limits(steps=2, tool_calls=5))
    assert (config.options.seed, config.options.top_k) == (3, 9)
    assert [tool.name for tool in config.offered] == ["calculate", "ask_user"]


def test_its_sessions_are_taken_up_with_it(here: Cogstep, tmp_path: Path) -> None:
    """Resume, fork and rehearse; without it a resume says that hooks are missing, and a fork that it has none."""
    recorded(here, call("stock", item="plum"), result)
    selling = [call("sell", item="plum"), result]

    done = here("resume", "s.jsonl", "Sell it.", *AGENT, replies=selling)
    assert (done.returncode, "not on Sundays" in done.stdout) == (0, True), done.stderr
    done = here("fork", "s.jsonl", "Sell it.", "--turn", "1", *AGENT, replies=selling)
    assert (done.returncode, "not on Sundays" in done.stdout, done.stderr.count("!")) == (0, True, 0), done.stderr
    done = here("rehearse", "s.jsonl", *AGENT)
    assert (done.returncode, "every result is the same (1 call)" in done.stdout) == (0, True), done.stdout

    own = ("--tools", "shop:LIST,shop:sell")
    done = here("resume", "s.jsonl", "Sell it.", *own, replies=[])
    assert (done.returncode, "recorded with hooks of its program (before_tool)" in done.stderr) == (2, True)
    done = here("fork", "s.jsonl", "Hi.", "--turn", "1", *own, replies=["Hello."])
    assert (done.returncode, "! the recorded session had hooks of its program (before_tool)" in done.stderr) == (
        0,
        True,
    )
    assert not (tmp_path / "sold").exists()


def test_its_own_judge_is_asked_unless_the_command_line_names_another(here: Cogstep, tmp_path: Path) -> None:
    for item, options, expected in (
        ("plum", (), "plum is sold"),
        ("pear", (), "refused"),
        ("pear", ("--yes",), "pear is sold"),
        ("plum", ("--approve", "none"), "nobody is here"),
    ):
        done = here("run", "?", "--agent", "shop:ASKING", *options, replies=[call("sell", item=item), result])
        assert (done.returncode, expected in done.stdout + done.stderr) == (0, True), (item, options, done)
    assert (tmp_path / "sold").read_text() == "plumpear"


def test_its_models_are_there_beside_those_of_the_command_line(here: Cogstep) -> None:
    several = ("--agent", "shop:SEVERAL")
    done = here("run", "Hi", *several, "--record", "s.jsonl", replies=[])
    assert (done.returncode, done.stdout) == (0, "Small.\n"), done.stderr
    done = here("resume", "s.jsonl", "Hi", *several, replies=[])
    assert (done.returncode, done.stdout) == (0, "Small.\n"), done.stderr
    typed = "/model\n/model other.gguf\nHi\n"
    done = here("chat", *several, "--fallback", "other.gguf", replies=["Other."], input=typed)
    assert (done.returncode, done.stdout) == (0, "Other.\n"), done.stderr
    assert done.stderr.splitlines() == ["  own", "* small", "  other.gguf"]


def test_it_works_on_a_terminal(on_terminal: OnTerminal) -> None:
    script = scripted('replies = [call("stock", item="plum"), "Seven."]')
    screen, code = on_terminal("run", "?", "--agent", "shop:make", "--record", "s.jsonl", command=script)
    assert (code, "Seven." in screen) == (0, True), screen
    screen, code = on_terminal("rehearse", "s.jsonl", "--agent", "shop:make")
    assert (code, "every result is the same (1 call)" in screen) == (0, True), screen


WRONG = {
    "shop:LIST": "has to be a dict of options of Agent",
    "shop:stock": "has to be a dict of options of Agent",
    "shop:WRONG": "has 'tool' in it, which is no option of Agent; did you mean 'tools'?",
    "shop:JOURNAL": "--record says where",
    "shop:NUMBER": "has 3 in it, which is no option of Agent",
    "shop:BAD": "is of the type str; it has to be a list",
    "shop:LIMITS": "write Limits(steps=...)",
    "shop:fail": "KeyError: 'no such shop' (shop.py, line",
    "shop:nothing": "there is no 'nothing' in",
    "shop": "write it as MODULE:NAME",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_program_is_one_sentence(name: str, here: Cogstep) -> None:
    done = here("run", "Hi", "--agent", name, replies=[])

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert WRONG[name] in done.stderr
