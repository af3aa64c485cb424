"""Stories to be run in every way: drawn ones, and one with everything in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from interpreters import replay
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome
from interpreters.recording.recorder import Recorder
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.durable.worlds import (
    Said,
    Story,
    World,
    at_once,
    by_rule,
    decided,
    message,
    on_asyncio,
    on_sync,
)

FULL = Story(
    (
        (
            Said(Reply("I look.", [call("look", n=1), call("look", n=13), call("send", n=2)]), 1),
            Said(Reply("", [call("pay", n=4), call("fetch")])),
            Said(Reply("", [call("spawn_worker", name="ann", objective="look", tools=["look"])])),
            Said(Reply("All is done.")),
        ),
        (Said(Reply("", [call("remember", text="a"), call("send", n=7)])),),
    )
)

NUMBERS = st.integers(1, 14)
CALLS = st.one_of(
    st.lists(st.builds(lambda n: call("look", n=n), NUMBERS), min_size=1, max_size=3),
    st.lists(
        st.one_of(
            st.builds(lambda n: call("send", n=n), NUMBERS),
            st.builds(lambda n: call("pay", n=n), NUMBERS),
            st.builds(lambda n: call("look", n=n), NUMBERS),
            st.just(call("fetch")),
            st.just(call("unknown")),
        ),
        min_size=1,
        max_size=3,
    ),
    st.just([call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])]),
    st.just([call("spawn_worker", name="ann", objective="look", tools=["look"])]),
    st.just([call("remember", text="a"), call("recall", query="a")]),
)
SAID = st.builds(Said, st.builds(Reply, st.sampled_from(["", "I do."]), CALLS), st.sampled_from([0, 0, 0, 1, 2]))
STORIES = st.builds(
    Story,
    st.lists(st.lists(SAID, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple),
    st.sampled_from([None, None, 0, 1]),
)


@cache
def suite() -> tuple[Story, ...]:
    """The stories that every engine is held against, the same each time: one with everything in it, and drawn ones."""
    drawn: list[Story] = []

    # Programs draw them too, without the profile of the tests: there a slow machine would be a failure.
    @settings(
        max_examples=19,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(STORIES)
    def draw(story: Story) -> None:
        drawn.append(story)

    draw()
    return (FULL, *drawn)


def lines_of_asyncio(story: Story, session: str = "s") -> tuple[World, list[bytes]]:
    elsewhere = MemoryEngine()
    world = asyncio.run(on_asyncio(World(story, session=session), elsewhere.recorder(session)))
    return world, elsewhere.sessions[session]


def lines_of_sync(story: Story, session: str = "s") -> tuple[World, list[bytes]]:
    elsewhere = MemoryEngine()
    world = on_sync(World(story, session=session, form=at_once), elsewhere.recorder(session))
    return world, elsewhere.sessions[session]


def agents_of(stories: Sequence[Story], prefix: str = "teller") -> tuple[list[World], list[DurableAgent]]:
    """A world for each story, and the agent that lives in it; it and its session have the same name."""
    worlds = [World(story, session=f"{prefix}-{number}") for number, story in enumerate(stories)]
    agents = []
    for world in worlds:
        options = world.options()
        del options["clock"]  # an engine has the real one
        agents.append(DurableAgent(world.session, FunctionModel(world.answer), world.tools(), **options))
    return worlds, agents


class Sessions(Protocol):
    """What the faces of the engines have in common."""

    def send(self, session: str, content: str, *, agent: str | None = None, key: str | None = None) -> str: ...
    def answer(self, session: str, effect_id: str, answer: Any, *, agent: str | None = None) -> str: ...
    def cancel(self, session: str, reason: str = "", *, agent: str | None = None) -> str: ...
    def result(self, run: str) -> RunOutcome: ...
    def pending(self, session: str, *, agent: str | None = None) -> Sequence[Any]: ...
    def recorder(self, session: str) -> Recorder: ...


def tell(sessions: Sessions, agents: Sequence[DurableAgent], worlds: Sequence[World]) -> None:
    """Run all stories side by side, and see that each session is the one that asyncio makes of it."""

    def told(agent: DurableAgent, world: World) -> None:
        story, session = world.story, world.session
        answers = 0
        for number in range(len(story.turns)):
            run = sessions.send(session, message(number), agent=agent.name, key=f"thing-{number}")
            ended = sessions.result(run)
            while ended.pending:
                assert tuple(sessions.pending(session, agent=agent.name)) == ended.pending
                if answers == story.cancel_after:
                    sessions.result(sessions.cancel(session, "enough", agent=agent.name))
                    break
                effect = ended.pending[0]
                ended = sessions.result(
                    sessions.answer(session, str(effect.effect_id), by_rule(effect), agent=agent.name)
                )
                answers += 1

    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(told, agents, worlds):
            pass
    for world in worlds:
        usual, lines = lines_of_asyncio(world.story, world.session)
        assert decided(sessions.recorder(world.session).lines()) == decided(lines), world.story
        assert world.done == usual.done
        assert replay(sessions.recorder(world.session)).same
