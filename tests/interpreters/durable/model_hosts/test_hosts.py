"""Which host a session prefers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError
from interpreters.durable.model_hosts.hosts import HostStates, ModelHost, preferred_host
from interpreters.testing.fakes import ScriptedModel

HOSTS = st.lists(st.sampled_from("abcdefgh"), min_size=2, unique=True)
SESSIONS = st.text("abc-123", min_size=1)


@given(SESSIONS, HOSTS)
def test_a_session_stays_where_it_is_while_another_host_goes(session: str, hosts: list[str]) -> None:
    own = preferred_host(session, hosts)
    gone = next(host for host in hosts if host != own)

    assert preferred_host(session, [host for host in hosts if host != gone]) == own


@given(SESSIONS, HOSTS)
def test_the_order_of_hosts_says_nothing_and_a_worker_goes_where_its_parent_is(session: str, hosts: list[str]) -> None:
    assert (
        preferred_host(session, hosts)
        == preferred_host(session, hosts[::-1])
        == preferred_host(f"{session}/1.2.1", hosts)
    )


def test_sessions_are_shared_out() -> None:
    found = [preferred_host(f"session-{number}", "abcd") for number in range(400)]

    assert all(60 < found.count(host) < 140 for host in "abcd")


@pytest.mark.parametrize(
    ("name", "slots"), [("two words", 1), ("", 1), (7, 1), ("a", 0), ("a", -1), ("a", 1.5), ("a", True), ("a", "2")]
)
def test_a_host_that_can_not_be_is_refused(name: Any, slots: Any) -> None:
    with pytest.raises(ConfigError, match="host"):
        ModelHost(name, ScriptedModel([]), slots)


def test_what_is_no_model_no_host_or_there_twice_is_refused() -> None:
    one: Any = ModelHost("a", ScriptedModel([]))
    with pytest.raises(ConfigError, match="a host's model"):
        ModelHost("a", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="two hosts have the same name"):
        HostStates([one, one])
    with pytest.raises(ConfigError, match="hosts are ModelHost"):
        HostStates(["http://127.0.0.1:8080"])  # type: ignore[list-item]


class Late:
    """A model that its host could not be asked about, until it is back."""

    def __init__(self, unreached: bool) -> None:
        self.unreached = unreached
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_host_that_was_away_when_a_process_began_is_asked_again() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(Late(unreached=len(made) < 2))
        return made[-1]

    places = HostStates([ModelHost("a", make)])
    places.load()
    place = places.named["a"]

    assert (place.is_away, place.is_reached, place.loaded_model()) == (True, False, made[0])
    assert [place.model() for _ in range(3)] == [made[1], made[2], made[2]]
    assert [one.closed for one in made] == [True, True, False]
    places.close()
    assert made[2].closed
