"""Exceptions and the state of a session are values: they can be copied, pickled and sent to other processes."""

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import cognition
import interpreters
import runtime
from cognition import AgentState, CogstepError, Completed, Failure, UserMessage
from cognition.testing import InconclusiveError, LawReport, LawViolation, Trace
from interpreters import Agent, ToolError, fakes, replay, tool

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def kinds_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from kinds_of(inner)


def errors() -> dict[str, type[Exception]]:
    faces = (cognition, runtime, interpreters)
    names = ("Error", "LawViolation")
    found = [getattr(face, name) for face in faces for name in face.__all__ if name.endswith(names)]
    found += [one for one in kinds_of(CogstepError) if one.__module__.split(".")[0] != "tests"]
    return {one.__qualname__: one for one in found}


def sample(kind: type[Exception]) -> Exception:
    """An exception with some value for each parameter of its constructor."""
    if not issubclass(kind, CogstepError):
        return kind("a message")
    if kind in (LawViolation, InconclusiveError):
        law = cognition.testing.laws(cognition.LLMEngine(cognition.AgentConfig()))[0]
        report = LawReport(law, tuple(0 for _ in law.premises))
        return LawViolation(law, "a problem", Trace()) if kind is LawViolation else InconclusiveError(report)
    given: list[Any] = []
    named: dict[str, Any] = {}
    if "__init__" not in {name for one in kind.__mro__[: kind.__mro__.index(CogstepError)] for name in vars(one)}:
        return kind("a message")
    for one in inspect.signature(kind).parameters.values():
        text = f"{one.annotation}"
        value: Any = f"a {one.name}"
        if "Failure" in text:
            value = Failure("a message", "transient")
        elif "outcome" in text.lower():
            value = Completed("text")
        elif "int" in text.split(" ") or text == "<class 'int'>" or "float" in text:
            value = 3
        elif "tuple[str, str]" in text:
            value = ("$.place", "a problem")
            value = (value,) if "tuple[tuple" in text else value
        elif "Path" in text:
            value = Path("a/file")
        if one.kind is one.KEYWORD_ONLY:
            named[one.name] = value
        elif one.kind is not one.VAR_KEYWORD:
            given.append(value)
    return kind(*given, **named)


@copies
@pytest.mark.parametrize("kind", errors().values(), ids=errors())
def test_an_exception_can_be_copied(kind: type[Exception], copied: Callable[[Any], Any]) -> None:
    error = sample(kind)
    error.add_note("a note")

    again = copied(error)

    assert type(again) is type(error)
    assert (str(again), again.args, again.__notes__) == (str(error), error.args, ["a note"])
    assert {name: str(value) for name, value in vars(again).items()} == {
        name: str(value) for name, value in vars(error).items()
    }
    if isinstance(error, OSError):
        assert (again.errno, again.strerror, again.filename) == (error.errno, error.strerror, error.filename)


def look_at(path: str) -> bool:
    return replay(path).same


def test_a_pool_of_processes_gets_the_exception_of_its_job(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("hello\n")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        with pytest.raises(CogstepError, match=r"b\.jsonl") as caught:
            pool.submit(look_at, str(tmp_path / "b.jsonl")).result(60)
        assert type(caught.value).__name__ == "NotAJournalError"
        assert pool.submit(abs, -1).result(60) == 1


@pytest.fixture(scope="module")
def states() -> list[AgentState]:
    @tool
    def look(place: str) -> str:
        """Look at a place."""
        raise ToolError("nothing there")

    script = [fakes.call("look", place="here"), "Nothing.", *["Well."] * 80]
    with Agent(fakes.ScriptedModel(script), [look]) as agent:
        found = [agent.state]
        for _ in range(81):
            agent.run("Look!")
            found.append(agent.state)
    return [found[0], found[1], found[-1]]


@copies
def test_the_state_of_a_session_can_be_copied(states: list[AgentState], copied: Callable[[Any], Any]) -> None:
    for state in states:
        again = copied(state)
        assert again == state
        assert copied(state.history) == state.history
        assert hash(again.history) == hash(state.history)
        assert [*again.history.append(UserMessage("m", "more"))][:-1] == [*state.history]


def test_a_copied_state_goes_on(states: list[AgentState]) -> None:
    state = pickle.loads(pickle.dumps(states[-1]))
    with Agent(fakes.ScriptedModel(["Yes."]), state=state) as agent:
        assert agent.run("Still there?").text == "Yes."
        assert [*agent.state.history][: len(state.history)] == [*states[-1].history]
