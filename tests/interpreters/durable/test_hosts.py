"""Which host a session prefers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError
from interpreters.durable.hosts import ModelHost, preferred
from interpreters.testing.fakes import ScriptedModel

HOSTS = st.lists(st.sampled_from("abcdefgh"), min_size=2, unique=True)
SESSIONS = st.text("abc-123", min_size=1)


@given(SESSIONS, HOSTS)
def test_a_session_stays_where_it_is_while_another_host_goes(session: str, hosts: list[str]) -> None:
    own = preferred(session, hosts)
    gone = next(host for host in hosts if host != own)

    assert preferred(session, [host for host in hosts if host != gone]) == own


@given(SESSIONS, HOSTS)
def test_the_order_of_hosts_says_nothing_and_a_worker_goes_where_its_parent_is(session: str, hosts: list[str]) -> None:
    assert preferred(session, hosts) == preferred(session, hosts[::-1]) == preferred(f"{session}/1.2.1", hosts)


def test_sessions_are_shared_out() -> None:
    found = [preferred(f"session-{number}", "abcd") for number in range(400)]

    assert all(60 < found.count(host) < 140 for host in "abcd")


@pytest.mark.parametrize(("name", "slots"), [("two words", 1), ("a", 0)])
def test_a_host_that_can_not_be_is_refused(name: str, slots: int) -> None:
    with pytest.raises(ConfigError, match="host"):
        ModelHost(name, ScriptedModel([]), slots)
