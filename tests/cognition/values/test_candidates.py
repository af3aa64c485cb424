"""Sections of a prompt: their shares are compared with what may be, up to a billionth."""

from __future__ import annotations

import pytest

from cognition import AgentConfig, ConfigError, Section
from cognition.values.candidates import CONVERSATION, check_sections


def test_a_billionth_more_than_all_is_no_error() -> None:
    """Shares are sums of fractions, which computers round."""
    check_sections((Section("a", 1e-9), Section(CONVERSATION, 1.0)))
    with pytest.raises(ConfigError, match="can be 1 at most"):
        check_sections((Section("a", 2e-9), Section(CONVERSATION, 1.0)))


def test_a_billionth_is_room_for_the_conversation() -> None:
    check_sections((Section("a", 1 - 1e-9),))
    with pytest.raises(ConfigError, match="no room for the conversation"):
        check_sections((Section("a", 1 - 5e-10),))


def test_a_configuration_checks_its_sections() -> None:
    with pytest.raises(ConfigError, match="no room for the conversation"):
        AgentConfig(sections=(Section("a", 1.0),))
