"""A conversation goes on in the session that has its beginning, and in no other one."""

from hypothesis import given, strategies as st

from runtime.programs.handles import MOST, SessionMatch, Sessions

LINES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)


@given(st.booleans(), st.lists(st.tuples(st.sampled_from("xy"), LINES), max_size=8), st.sampled_from("xy"), LINES)
def test_what_is_found_has_the_beginning_and_not_all(
    forks: bool, kept: list[tuple[str, list[str]]], about: str, lines: list[str]
) -> None:
    """Of all that are known it is one that has most of it."""
    sessions = Sessions(forks=forks)
    for number, (what, said) in enumerate(kept):
        sessions.remember(what, said, f"session-{number}")
    found = sessions.find(about, lines)

    fitting = [said for what, said in kept if what == about and said == lines[: len(said)] and len(said) < len(lines)]
    assert found.lines == max(map(len, fitting), default=0)
    if found.session:
        what, said = kept[int(found.session.removeprefix("session-"))]
        assert (what, said) == (about, lines[: found.lines])


def test_a_session_that_is_changed_by_going_on_serves_one_at_a_time() -> None:
    """The second who comes from the same place begins anew, as its conversation would be that of two."""
    sessions = Sessions(forks=False)
    sessions.remember("", ["a", "b"], "one")

    assert sessions.find("", ["a", "b", "c"]) == SessionMatch("one", 2)
    assert sessions.find("", ["a", "b", "d"]) == SessionMatch()
    sessions.remember("", ["a", "b", "c", "e"], "one")
    assert sessions.find("", ["a", "b", "d"]) == SessionMatch()
    assert sessions.find("", ["a", "b", "c", "e", "f"]) == SessionMatch("one", 4)


def test_a_session_that_is_left_as_it_was_serves_many() -> None:
    """Each goes on in a copy."""
    sessions = Sessions(forks=True)
    sessions.remember("", ["a", "b"], "one")

    assert [sessions.find("", ["a", "b", end]) for end in "cd"] == [SessionMatch("one", 2)] * 2


def test_conversations_may_begin_in_a_given_session() -> None:
    """Where that one is changed by it, the first alone."""
    forking, single = (Sessions(forks=forks, first="old") for forks in (True, False))

    assert [forking.find("", ["a"]).session for _ in range(2)] == ["old", "old"]
    assert [single.find("", ["a"]).session for _ in range(2)] == ["old", ""]


def test_what_is_gone_is_forgotten() -> None:
    """So the next attempt sends the whole conversation."""
    sessions = Sessions(forks=True, first="one")
    sessions.remember("", ["a", "b"], "one")
    sessions.remember("", ["a", "b", "c", "d"], "two")
    sessions.remember("", ["x"], "three")
    sessions.forget("", ["a", "b", "c", "d", "e"], "two")

    assert sessions.find("", ["a", "b", "c", "d", "e"]) == SessionMatch(
        "one", 0
    )  # the first one, which is not known to be gone
    assert sessions.find("", ["x", "y"]) == SessionMatch("three", 1)
    sessions.forget("", ["a"], "one")
    assert sessions.find("", ["a", "b", "c", "d", "e"]) == SessionMatch()


def test_only_so_many_are_remembered() -> None:
    """The one that went on longest ago goes first."""
    sessions = Sessions(forks=True)
    for number in range(MOST + 1):
        sessions.remember("", [f"{number}", "b"], f"session-{number}")

    assert sessions.find("", ["0", "b", "c"]) == SessionMatch()
    assert sessions.find("", ["1", "b", "c"]) == SessionMatch("session-1", 2)
