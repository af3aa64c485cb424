"""Every line of the recipes runs, and they keep their promises when a user presses Ctrl-C, leaves, or writes twice.

``tests/test_docs.py`` compares what they print; ``tests/test_types_complete.py`` checks their types.
"""

import asyncio
import re
import signal
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from cogstep import Agent, AsyncAgent, ModelRequest, fakes

START = Path(__file__).resolve().parent.parent / "docs/start"

FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes() -> dict[str, str]:
    """The program of each section of the two pages, by its heading."""
    found: dict[str, str] = {}
    for name in ("recipes.md", "recipes-sessions.md"):
        for section in (START / name).read_text("utf-8").split("\n## ")[1:]:
            heading = section.partition("\n")[0]
            found[heading] = "\n".join(FENCE.findall(section))
    return found


RECIPES = recipes()


def lines_of(code: CodeType) -> set[int]:
    """The lines of a program at which something can run, those of its functions too."""
    own = {line for _, _, line in code.co_lines() if line}  # 0 is where a module begins
    return own.union(*(lines_of(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def run(source: str, name: str) -> tuple[dict[str, Any], set[int]]:
    """Run a program as a script; return its names, and the lines that ran on any thread."""
    seen: set[int] = set()

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != name:
            return None
        seen.add(frame.f_lineno)
        return trace

    names: dict[str, Any] = {"__name__": "__main__"}
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)
    try:
        exec(compile(source, name, "exec"), names)
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)  # type: ignore[arg-type]  # None: no function was set before
    return names, seen


BY_TESTS_BELOW = {
    "A chat in the terminal": {"        except KeyboardInterrupt:", '            print(" (stopped)")'},
    "A process for the model": {"    return a * b"},
}
"""Lines that need a user at the keyboard, or a model that calls."""


@pytest.mark.parametrize("heading", RECIPES, ids=lambda heading: re.sub(r"\W+", "-", heading.lower()))
def test_every_line_of_a_recipe_runs(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A branch that never runs on the page may name what does not exist."""
    source = RECIPES[heading]
    if "load_model()" in source and not (find_spec("llama_cpp") or find_spec("mlx")):
        pytest.skip("the recipe loads a model, and no backend is installed")
    monkeypatch.chdir(tmp_path)
    _, seen = run(source, heading)
    text = source.splitlines()
    never = {text[line - 1] for line in lines_of(compile(source, heading, "exec")) - seen}

    assert never == BY_TESTS_BELOW.get(heading, set())
    assert capsys.readouterr().err == ""


def test_a_line_that_never_runs_is_found() -> None:
    """The check can fail: on a branch, on a function, and on a handler of exceptions."""
    source = "def f():\n    return 1\nif not True:\n    f()\ntry:\n    f\nexcept OSError:\n    f()\nx = 1\n"
    _, seen = run(source, "program")

    assert lines_of(compile(source, "program", "exec")) - seen == {2, 7, 8}


def test_there_are_as_many_recipes_as_the_pages_say() -> None:
    assert len(RECIPES) == 19
    assert all(RECIPES.values())


def test_ctrl_c_ends_an_answer_and_the_chat_continues(capsys: pytest.CaptureFixture[str]) -> None:
    """The next line finds no turn of the stopped answer."""

    def reply(request: ModelRequest) -> Iterator[str]:
        yield "Once "
        while len(request.messages) == 1:
            yield "upon "
        yield "more."

    def press_ctrl_c(*texts: str, **options: Any) -> None:
        print(*texts, **options)
        if texts == ("upon ",):
            signal.raise_signal(signal.SIGINT)

    names, _ = run(RECIPES["A chat in the terminal"], "recipe")
    names["print"] = press_ctrl_c
    capsys.readouterr()
    with Agent(fakes.FunctionModel(reply)) as agent:
        names["chat"](agent, ["A story!", "Again!"])

    assert capsys.readouterr().out == "Once upon  (stopped)\nOnce more.\n"


def test_the_tool_beside_a_process_for_the_model_works() -> None:
    names, _ = run(RECIPES["A process for the model"], "recipe")

    assert names["multiply"](17, 23) == 391


async def collect(names: dict[str, Any], text: str) -> list[str]:
    return [line async for line in names["answer"]("eve", text)]


def test_a_second_message_of_a_visitor_waits_for_the_first() -> None:
    """A stream that has begun can't report that the session is busy: its status is sent already."""
    names, _ = run(RECIPES["A web server"], "recipe")

    async def main() -> tuple[list[list[str]], int]:
        answers = await asyncio.gather(*(collect(names, f"message {number}") for number in range(5)))
        agent: AsyncAgent = names["visitors"]["eve"][0]
        async with agent:
            return answers, len(agent.state.history)

    answers, messages = asyncio.run(main())

    assert [lines[-1] for lines in answers] == ["event: end\ndata: true\n\n"] * 5
    assert messages == 10


def test_a_visitor_who_leaves_stops_the_model_and_may_come_back() -> None:
    names, _ = run(RECIPES["A web server"], "recipe")

    async def main() -> tuple[str, str]:
        leaving = names["answer"]("eve", "A long story!")
        await anext(leaving)
        await leaving.aclose()
        agent: AsyncAgent = names["visitors"]["eve"][0]
        async with agent:
            return type(agent.state.phase).__name__, (await collect(names, "Good morning"))[-1]

    assert asyncio.run(main()) == ("Idle", "event: end\ndata: true\n\n")
