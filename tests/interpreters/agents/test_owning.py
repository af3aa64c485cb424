"""Whose model it is: an agent leaves open what somebody else made; a script ends with the agent that it is for."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent, AgentHost, AsyncAgent, ModelChoice
from interpreters.cli.main import main
from interpreters.cli.session import session
from interpreters.hosting import _protocol as say
from interpreters.hosting._protocol import line_of
from interpreters.testing.cassettes import Cassette
from interpreters.testing.fakes import FunctionModel, ScriptedModel, ScriptError
from runtime.errors import RuntimeClosedError
from tests.interpreters.hosting.common import talk
from tests.interpreters.loops import Blocking

JOURNAL = "s.jsonl"

Use = Callable[..., str]
"""One session of one message on a model, from its beginning to its end."""


def hello() -> FunctionModel:
    return FunctionModel(lambda _request: "Hello.")


def in_sync(make: Callable[..., Any], model: Any, **options: Any) -> str:
    with make(model, **options) as agent:
        return str(agent.run("Hi!").text)


def in_a_loop(make: Callable[..., Any], model: Any, **options: Any) -> str:
    async def main() -> str:
        async with make(model, **options) as agent:
            return str((await agent.run("Hi!")).text)

    return asyncio.run(main())


def in_a_host(model: Any, **options: Any) -> str:
    with AgentHost.in_thread(model, **options) as host:
        text = host.open("a").run("Hi!").text
    if host.faults:
        raise ScriptError(host.faults[0])
    return text


USES: dict[str, Use] = {
    "Agent": partial(in_sync, Agent),
    "Agent.resume": partial(in_sync, partial(Agent.resume, JOURNAL)),
    "Agent.fork": partial(in_sync, partial(Agent.fork, JOURNAL)),
    "AsyncAgent": partial(in_a_loop, AsyncAgent),
    "AsyncAgent.resume": partial(in_a_loop, partial(AsyncAgent.resume, JOURNAL)),
    "AsyncAgent.fork": partial(in_a_loop, partial(AsyncAgent.fork, JOURNAL)),
    "AgentHost.in_thread": in_a_host,
}
"""Every door through which a program gives a model that it made."""


@pytest.fixture(params=USES)
def use(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    monkeypatch.chdir(tmp_path)
    with Agent(hello(), journal=JOURNAL) as agent:
        agent.run("Hi!")
    return USES[request.param]


def test_a_model_is_left_to_who_made_it(use: Use) -> None:
    """One session after the other on one model, without any option, and the model serves the program afterwards."""
    model = hello()

    assert [use(model), use(model)] == ["Hello.", "Hello."]
    with Agent(model) as first, Agent(model) as second:
        assert (first.run("Hi!").text, second.run("Hi!").text) == ("Hello.", "Hello.")


def test_a_model_that_blocks_is_left_to_who_made_it(use: Use) -> None:
    """As a real one does, which asyncio closes on a thread."""
    model = Blocking("One.", "Two.")
    model.ends_with_agent = False

    assert [use(model), use(model)] == ["One.", "Two."]
    model.close()


def test_a_session_that_is_over_holds_no_model(use: Use) -> None:
    """It goes with the last who holds it, and no garbage has to be collected for that."""
    gc.collect()
    gc.disable()
    try:
        model = hello()
        use(model)
        kept = weakref.ref(model)
        del model
        assert kept() is None
    finally:
        gc.enable()


def test_a_model_that_is_handed_over_is_closed(use: Use) -> None:
    model = hello()
    use(model, owns_model=True)

    with Agent(model) as agent, pytest.raises(RuntimeClosedError):
        agent.run("Hi!")


# -------------------------------------------------------------------------------------------- what makes its own model


def test_a_host_closes_what_its_factory_made() -> None:
    made: list[FunctionModel] = []

    def factory() -> FunctionModel:
        made.append(hello())
        return made[-1]

    talk([line_of(say.Start("1", say.VERSION, ModelChoice(factory="mine")))], factories={"mine": factory})

    with pytest.raises(RuntimeClosedError), Agent(made[0]) as agent:
        agent.run("Hi!")


@pytest.mark.parametrize("begin", [["run"], ["run", "--record", "new.jsonl"], ["resume", JOURNAL], ["fork", JOURNAL]])
def test_a_command_closes_what_it_loaded(
    begin: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Agent(hello(), journal=JOURNAL) as agent:
        agent.run("Hi!")
    model = hello()
    monkeypatch.setattr(session, "load_model", lambda *_, **__: model)

    assert (main([*begin, "Hi!"]), capsys.readouterr().out) == (0, "Hello.\n")
    with pytest.raises(RuntimeClosedError), Agent(model) as agent:
        agent.run("Hi!")


# ----------------------------------------------------------------------------------------------------------- scripts


def test_replies_that_are_left_are_told_by_the_end_of_the_session(use: Use) -> None:
    """A test that says nothing of it has to fail."""
    with pytest.raises(ScriptError, match="only 1 of the script's 2 replies"):
        use(ScriptedModel(["One.", "Two."]))


def test_replies_that_are_left_to_a_cassette_are_told_too(use: Use, tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "c.json", "record")
    with pytest.raises(ScriptError, match="only 1 of the script's 2 replies"):
        use(cassette.model(lambda: ScriptedModel(["One.", "Two."])))


def test_a_script_that_is_held_open_serves_several_sessions(use: Use) -> None:
    """The end of the block is where it has to be used up."""
    with ScriptedModel(["One.", "Two."]) as model:
        assert [use(model), use(model)] == ["One.", "Two."]
    with pytest.raises(ScriptError, match="only 1 of the script's 2 replies"), ScriptedModel(["One.", "Two."]) as model:
        use(model)


def test_a_script_that_is_over_says_how_several_use_it(use: Use) -> None:
    """Another agent on it fails, and does not find it empty."""
    model = ScriptedModel(["One."])
    use(model)

    with pytest.raises(RuntimeClosedError, match="where several use it, open it by `with`"), Agent(model) as agent:
        agent.run("Hi!")


def test_a_script_without_end_is_left_open(use: Use) -> None:
    """No reply of it is ever left over."""
    model = ScriptedModel(iter(["One.", "Two."]))

    assert [use(model), use(model)] == ["One.", "Two."]


@pytest.mark.parametrize("owns_model", [True, False])
def test_what_the_program_says_of_a_script_holds(use: Use, owns_model: bool) -> None:
    """Also where it is held open."""
    with ScriptedModel(["One."]) as held:
        use(held, owns_model=owns_model)
    script = ScriptedModel(["One.", "Two."])
    if owns_model:
        with pytest.raises(ScriptError):
            use(script, owns_model=True)
    else:
        assert [use(script, owns_model=False), use(script, owns_model=False)] == ["One.", "Two."]
