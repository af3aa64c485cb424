"""``/policy`` in a chat: every rule that calls are judged by, and taking back what was said from now on."""

from __future__ import annotations

from pathlib import Path

from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep

OWN = """
from cognition import Layer, Policy, Rule
from interpreters import Approval, tool

@tool(approval=True)
def launch(target: str) -> str:
    '''Launch.'''
    return "launched " + target

@tool
def look() -> str:
    '''Look.'''
    return "seen"


POLICY = Policy(
    (Rule("deny", "look", "nothing to see"), Rule("ask", "launch")), default="ask",
).under(Layer((Rule("allow", "look"),), default="deny", allow_only=("look", "launch")))
AGENT = {"tools": [launch, look], "policy": POLICY}
PLAIN = {"tools": [look]}
SAYS = {"tools": [launch], "approve": lambda request: Approval(True, always=True)}
"""


def chatted(here: Cogstep, tmp_path: Path, name: str, typed: str, replies: list[object]) -> list[str]:
    (tmp_path / "own.py").write_text(OWN)
    done = here("chat", "--agent", f"own:{name}", input=typed, replies=replies)  # type: ignore[arg-type]  # a script
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_each_rule_is_listed_under_whoever_made_it(here: Cogstep, tmp_path: Path) -> None:
    told = chatted(here, tmp_path, "AGENT", "/mode careful\n/policy\n", [])

    assert told == [
        "• mode: careful",
        "mode: careful",
        "policy: what no rule is for is asked about:",
        "  deny   look  (nothing to see)",
        "  ask    launch",
        "layer 1 below it: what no rule is for is denied:",
        "  allow  look",
        "  only   look, launch",
        "tools that ask for themselves: launch",
        "from now on: nothing was said",
    ]


def test_where_there_are_no_rules_nothing_else_is_listed(here: Cogstep, tmp_path: Path) -> None:
    told = chatted(here, tmp_path, "PLAIN", "/policy\n/policy forget 1\n/policy forget all\n/policy forget\n", [])

    assert told == [
        "mode: default",
        "policy: what no rule is for is allowed",
        "from now on: nothing was said",
        "nothing was said from now on",
        "nothing was said from now on",
        "! write /policy, /policy forget N for the rule of that number, or /policy forget all",
    ]


def test_what_was_said_is_taken_back_by_its_number_or_all_at_once(here: Cogstep, tmp_path: Path) -> None:
    replies = [call("launch", target="kite"), "Up.", call("launch", target="kite"), "Up again."]
    typed = "Go!\n/policy\n/policy forget 2\n/policy forget x\n/policy forget 1\nGo!\n/policy forget all\n/policy\n/x\n"

    told = chatted(here, tmp_path, "SAYS", typed, replies)
    told = [line for line in told if "launch(" not in line and "launched" not in line]

    assert told == [
        "mode: default",
        "policy: what no rule is for is allowed",
        "tools that ask for themselves: launch",
        "from now on, as you said:",
        "  1  allow  launch",
        "/policy forget N takes one back, /policy forget all takes back all",
        "! there is no rule 2; there is 1, and all",
        "! there is no rule x; there is 1, and all",
        "forgotten: launch",
        "all that was said from now on is forgotten",
        "mode: default",
        "policy: what no rule is for is allowed",
        "tools that ask for themselves: launch",
        "from now on: nothing was said",
        "! there is no command /x; /help lists them; a space before it makes it a message",
    ]
