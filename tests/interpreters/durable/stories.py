"""Stories to be run in every way: drawn ones, and one with everything in it."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st

from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import Reply, call
from tests.interpreters.durable.worlds import Said, Story, World, on_asyncio

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


def lines_of_asyncio(story: Story) -> tuple[World, list[bytes]]:
    async def main() -> tuple[World, list[bytes]]:
        elsewhere = MemoryEngine()
        world = await on_asyncio(story, elsewhere.recorder("s"))
        return world, elsewhere.sessions["s"]

    return asyncio.run(main())
