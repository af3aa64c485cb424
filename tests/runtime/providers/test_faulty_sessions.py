"""Agents behind a proxy that cuts, garbles and refuses at random: turns end truthfully, and nothing runs twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cognition import Completed, Failed, RetryPolicy, ToolMessage
from interpreters import Agent, replay, tool
from interpreters.testing.fakes import FunctionModel, call
from runtime import Backend, Timeouts, load_model
from tests.runtime.providers.conftest import PATHS
from tests.runtime.providers.fault_proxy import KINDS, NONE, Fault, FaultProxy
from tests.runtime.providers.speaking import SpeakingServer

FAULTS = 300

RETRY = RetryPolicy(attempts=4, first_delay=0.001, longest_delay=0.002)


def answer(request: Any) -> Any:
    """A call for each message of the user, and its result as the answer."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return f"The double is {last.content}, which may be told in a few more words than that."
    return call("double", number=int(last.text.split()[-1]))  # where turns have failed, their messages stand before it


@pytest.mark.slow
@pytest.mark.parametrize("dialect", PATHS)
def test_every_turn_ends_truthfully(dialect: Any, tmp_path: Path) -> None:
    """A turn is completed with the right answer, or it has failed; each call ran once; each session replays."""
    chance = random.Random(7)
    struck = 0
    kinds: set[str] = set()
    """What was done to the turn at hand."""

    def plan(_number: int) -> Fault:
        nonlocal struck
        if chance.random() < 0.4:
            return NONE
        struck += 1
        kind = chance.choice(KINDS)
        kinds.add(kind)
        return Fault(kind, chance.randrange(1500), status=chance.choice([429, 500, 503, 401]), seconds=0.06)

    ran: list[int] = []

    @tool
    def double(number: int) -> int:
        """Twice a number."""
        ran.append(number)
        return 2 * number

    server = SpeakingServer(FunctionModel(answer))
    outcomes: list[Any] = []
    with FaultProxy(server.port, plan) as proxy:
        url = f"http://127.0.0.1:{proxy.port}{PATHS[dialect]}"
        backend = Backend("ours", url, dialect, timeouts=Timeouts(silence=0.03))
        with load_model("ours/small", backends=[backend]) as model:
            session = 0
            while struck < FAULTS / len(PATHS):
                session += 1
                journal = tmp_path / f"{session}.jsonl"
                with Agent(model, tools=[double], retry=RETRY, journal=journal) as agent:
                    for turn in range(4):
                        number = 10 * session + turn
                        kinds.clear()
                        result = agent.run(str(number))
                        outcomes.append(result.outcome)
                        if isinstance(result.outcome, Completed) and "garble" not in kinds:  # which may be text
                            assert str(2 * number) in result.text
                        assert [one.content for one in result.calls if one.status == "ok"] == [
                            str(2 * given) for given in ran
                        ]
                        ran.clear()
                assert replay(journal).same
    server.close()

    assert {type(outcome) for outcome in outcomes} == {Completed, Failed}
    assert sum(isinstance(outcome, Completed) for outcome in outcomes) > len(outcomes) / 3
