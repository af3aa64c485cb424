"""What was too long for the model is read on in: of every tool, with secrets hidden, and after a resume."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError, LLMEngine
from interpreters import Agent, Tool, ToolError, fakes, output_tool, read_result, replay, tool

LONG = "".join(f"line {number} of many\n" for number in range(3000))
SECRET = "sk-proj-" + "Zx9Kq2Lm7Rt4Vb8Nc3Wd6Yf1" * 2
TOLD = re.compile(r"\n\[characters (\d+) to (\d+) of (\d+)(?:; read on with offset=(\d+))?\]\Z")


@tool(read_only=True)
def tell(what: str) -> str:
    """Tell something."""
    if what == "fail":
        raise ToolError(LONG)
    return {"long": LONG, "short": "brief", "secret": f"{LONG[:30000]}\n{SECRET}\n{LONG[30000:]}"}[what]


PAGE = "A page of a book. " * 30
WAY = re.compile(r'; (\w+)\(call="(.+)"\) reads them \.\.\.\]')


@tool(read_only=True)
def page(number: int) -> str:
    """Read a page."""
    return PAGE


DIGITS = "0123456789" * 30


@tool(read_only=True, output_limit=50)
def short() -> str:
    """Tell a little too much."""
    return DIGITS


def tools_of(path: Path) -> list[Tool[..., Any]]:
    return [tell, short, output_tool(path)]


def results(agent: Agent) -> list[str]:
    return [message.content for message in agent.state.history if type(message).__name__ == "ToolMessage"]


def read_through(agent: Agent, say: Any, **arguments: Any) -> str:
    """All of a result, read on as told."""
    offset, parts = 0, list[str]()
    while True:
        say(fakes.call("ReadOutput", offset=offset, **arguments))
        agent.run("Go on.")
        content = results(agent)[-1]
        assert "characters left out" not in content, "what is read fits"
        told = TOLD.search(content)
        assert told is not None, content
        parts.append(content[: told.start()])
        if told[4] is None:
            return "".join(parts)
        offset = int(told[4])


def scripted() -> tuple[Any, Any]:
    """A model that makes the calls it is told to, and the function that tells it."""
    todo: list[Any] = []
    return fakes.FunctionModel(lambda _request: todo.pop(0) if todo else "Done."), todo.append


@pytest.mark.parametrize(("what", "expected"), [("long", LONG), ("fail", f"Error: {LONG}")])
def test_whoever_reads_on_as_told_has_read_all_of_it(what: str, expected: str, tmp_path: Path) -> None:
    """A result, and an error; then the same after a resume, in another process as it were."""
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    with Agent(model, tools=tools_of(path), journal=path, context_tokens=8000) as agent:
        say(fakes.call("tell", what=what))
        agent.run("Tell me.")
        assert "characters left out" in results(agent)[0]
        assert read_through(agent, say) == expected
    with Agent.resume(path, model, tools=tools_of(path)) as agent:
        assert read_through(agent, say) == expected
    assert replay(path).same


def test_a_result_that_a_request_shortens_is_read_again_by_its_call(tmp_path: Path) -> None:
    """It was whole at first; the place where it is cut says what to call."""
    path, seen = tmp_path / "s.jsonl", list[str]()

    def answer(request: Any) -> Any:
        cut = [WAY.search(m.content) for m in request.messages if type(m).__name__ == "ToolMessage"]
        if seen:
            return "Done."
        if len(cut) < 9:
            return fakes.call("page", number=len(cut))
        assert cut[0] is not None
        seen.extend(cut[0].groups())
        return fakes.call(cut[0][1], call=cut[0][2])

    tools, model = [page, output_tool(path)], fakes.FunctionModel(answer)
    with Agent(model, tools, journal=path, context_tokens=1600, compact_at=None) as agent:
        agent.run("Read the pages.")
    assert seen == ["ReadOutput", "call-1-1-1"]
    assert results(agent)[-1] == f"{PAGE}\n[characters 0 to {len(PAGE)} of {len(PAGE)}]"
    assert replay(path).same


def test_what_is_hidden_in_the_recording_is_hidden_here(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    with Agent(model, tools=tools_of(path), journal=path, context_tokens=8000) as agent:
        say(fakes.call("tell", what="secret"))
        agent.run("Tell me.")
        told = read_through(agent, say)

    assert SECRET not in told
    assert all(SECRET.encode() not in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    assert told.startswith(LONG[:30000])
    assert told.endswith(LONG[30000:])


def test_shortened_results_are_counted_from_the_newest(tmp_path: Path) -> None:
    """A tool's own limit counts; what was read whole does not, and neither does what stood there before a reset."""
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    with Agent(model, tools=tools_of(path), journal=path, context_tokens=8000) as agent:
        for one in (fakes.call("tell", what="long"), fakes.call("short"), fakes.call("tell", what="short")):
            say(one)
            agent.run("Go on.")
        assert read_through(agent, say) == DIGITS
        assert read_through(agent, say, result=2) == LONG
        say(fakes.call("ReadOutput", offset=5, limit=3))
        agent.run("Go on.")
        assert results(agent)[-1] == "567\n[characters 5 to 8 of 300; read on with offset=8]"
        agent.reset()
        say(fakes.call("ReadOutput"))
        agent.run("Go on.")
        assert results(agent) == ["Error: no result of this session was shortened"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"result": 2}, "result is 2, and 1 were shortened"),
        ({"result": 0}, "result is 0, and has to be 1 or more"),
        ({"offset": -1}, "offset is -1, and has to be 0 or more"),
        ({"offset": 10**9}, "offset is 1000000000, and the result has"),
        ({"call": "call-9-9-9"}, "this session has no result of a call 'call-9-9-9'"),
        ({"call": "call-1-1-1", "result": 2}, "result is 2, and 1 were shortened"),
        ({"limit": 0}, "limit is 0, and has to be 1 or more"),
    ],
)
def test_what_can_not_be_read_is_told(arguments: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    with Agent(model, tools=tools_of(path), journal=path, context_tokens=8000) as agent:
        for one in (fakes.call("tell", what="long"), fakes.call("ReadOutput", **arguments)):
            say(one)
            agent.run("Go on.")
        assert problem in results(agent)[-1]


def test_another_session_s_recording_and_none_are_no_place_to_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    with Agent(model, tools=tools_of(path), journal=path, context_tokens=8000) as agent:
        say(fakes.call("tell", what="long"))
        agent.run("Go on.")
    for where, problem in ((path, "no result of this session was shortened"), (tmp_path / "x", "can't be read")):
        with Agent(model, tools=tools_of(where), context_tokens=8000) as agent:
            say(fakes.call("ReadOutput"))
            agent.run("Go on.")
            assert problem in results(agent)[-1]


class Own(LLMEngine):
    """An engine of the program's own, which no journal can recreate."""


@pytest.mark.parametrize("engine", [LLMEngine, Own])
def test_a_result_of_a_reply_whose_calls_still_run_is_read_too(engine: type[LLMEngine], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    model, say = scripted()
    alone = tool(short.function, name="alone", read_only=True, parallel=False, output_limit=50)
    say([fakes.call("alone"), fakes.call("ReadOutput")])
    with Agent(model, [alone, output_tool(path)], journal=path, context_tokens=8000, engine=engine) as agent:
        agent.run("Go on.")
        assert results(agent)[-1] == f"{DIGITS}\n[characters 0 to 300 of 300]"


def test_only_what_was_really_cut_counts(tmp_path: Path) -> None:
    """Neither an attempt that failed and was repeated, nor a result whose note would be as long as what it replaces."""
    path, answers = tmp_path / "s.jsonl", [ToolError(DIGITS, transient=True), "brief", "0123456789" * 6]

    @tool(read_only=True, output_limit=50, retries=(0.01,))
    def flaky() -> str:
        """Fail once."""
        answer = answers.pop(0)
        if isinstance(answer, ToolError):
            raise answer
        return answer

    model, say = scripted()
    with Agent(model, [flaky, output_tool(path)], journal=path, context_tokens=8000) as agent:
        for one in (fakes.call("flaky"), fakes.call("flaky"), fakes.call("ReadOutput")):
            say(one)
            agent.run("Go on.")
    assert results(agent) == ["brief", "0123456789" * 6, "Error: no result of this session was shortened"]


def test_a_program_reads_whole_results(tmp_path: Path) -> None:
    """Of tools that returned or failed, of workers, and texts of the engine; the newest of a repeated id."""
    path = tmp_path / "s.jsonl"
    model = fakes.ScriptedModel(
        [
            [fakes.call("tell", what="long"), fakes.call("tell", what="fail"), fakes.call("nothing")],
            "Told.",
        ]
    )
    with Agent(model, [tell], journal=path) as agent:
        agent.run("Tell.")
        assert read_result(path, "call-1-1-1") == LONG
        assert read_result(path, "call-1-1-2").endswith(LONG)
        assert read_result(path, "call-1-1-3") == results(agent)[2]
        with pytest.raises(CogstepError, match="of a call 'x'; those of this session: call-1-1-1, call-1-1-2"):
            read_result(path, "x")
    with Agent(fakes.ScriptedModel(["Hello."]), journal=tmp_path / "t.jsonl") as agent:
        agent.run("Hello.")
    with pytest.raises(CogstepError, match="this session has none"):
        read_result(tmp_path / "t.jsonl", "call-1-1-1")
