"""An agent on another agent's command line: its tools are told in the system prompt, and run here under its policy."""

from pathlib import Path

import pytest
from attrs import frozen

from cognition import CallTool, Failed, RetryPolicy
from interpreters import Agent, tool
from interpreters.observing.events import Event
from tests.runtime.programs.installed import PROGRAMS, Installed


@frozen
class Answer:
    value: int


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turn_with_a_tool(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The convention is chosen by itself, the call is read from the text, and the result is told."""
    installed = Installed(name, tmp_path, monkeypatch)
    call = 'I multiply.\n<tool>multiply</tool><args>{"a": 17, "b": 23}</args>'
    installed.plan(["turns", call, "17 * 23 is 391."])
    with installed.load() as model, Agent(model, [multiply], "Be brief.") as agent:
        result = agent.run("What is 17 * 23?")
    first, second = installed.calls

    assert result.text == "17 * 23 is 391."
    told = first["files"]["--system-prompt-file"][1] if name == "claude" else first["stdin"]
    assert "<tool>name</tool>" in told
    assert "multiply: Multiply two whole numbers." in told
    assert "Result of multiply:\\n391" in second["stdin"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_answer_of_a_type(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is handed its schema, and the core checks what came; a failure of the program's is tried again."""
    installed = Installed(name, tmp_path, monkeypatch)
    retry = RetryPolicy(attempts=2, first_delay=0.01)
    with installed.load() as model, Agent(model, retry=retry) as agent:
        installed.plan(["say", '{"value": 391}'])
        answer = agent.run("What is 17 * 23?", returns=Answer).value
        installed.plan(["error", "API Error: 529 overloaded"], ["exit", 1])
        outcome = agent.run("And now?").outcome

    assert answer == Answer(391)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "rate_limit"
    assert len(installed.calls) == 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turn_goes_on_in_the_programs_session(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program keeps one: of its own call and of the question, nothing is sent again."""
    installed = Installed(name, tmp_path, monkeypatch)
    installed.plan(["say", '<tool>multiply</tool><args>{"a": 17, "b": 23}</args>'])

    def at_the_call(event: Event) -> None:
        if isinstance(event.value, CallTool):
            installed.plan(["say", "391."])

    with installed.load(sessions=True) as model, Agent(model, [multiply], observers=[at_the_call]) as agent:
        result = agent.run("What is 17 * 23?")
    _, second = installed.calls

    assert result.text == "391."
    assert "391" in second["stdin"]
    assert "What is 17 * 23?" not in second["stdin"]
