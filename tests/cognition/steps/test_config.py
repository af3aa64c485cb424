"""The limits of a configuration's numbers: the lowest and the highest are valid, and an error names both."""

from __future__ import annotations

from math import nan

import pytest
from attrs import field, frozen

from cognition import AgentConfig, CodecError, ConfigError, Limits
from cognition.steps.codec import from_data, to_data
from cognition.steps.config import EDITION, _between


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (None, ""),
        (2.0, ""),
        (2.5, ""),
        (3.0, ""),
        (1.9, "share must be between 2 and 3, not 1.9"),
        (3.1, "share must be between 2 and 3, not 3.1"),
        (nan, "share must be between 2 and 3, not nan"),
    ],
)
def test_a_number_between_two_others_may_be_either(value: float | None, refused: str) -> None:
    assert _refusal(value, above=None) == refused
    assert _refusal(value, above=False) == refused


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (None, ""),
        (2.1, ""),
        (3.0, ""),
        (2.0, "share must be above 2 and at most 3, not 2.0"),
        (1.9, "share must be above 2 and at most 3, not 1.9"),
        (3.1, "share must be above 2 and at most 3, not 3.1"),
        (nan, "share must be above 2 and at most 3, not nan"),
    ],
)
def test_a_number_above_another_is_never_that_number(value: float | None, refused: str) -> None:
    assert _refusal(value, above=True) == refused


def _refusal(value: float | None, *, above: bool | None) -> str:
    """Return the error of a class with a share from 2 to 3; empty without one. ``above`` may be left to its default."""
    validator = _between(2, 3) if above is None else _between(2, 3, above=above)

    @frozen
    class Shared:
        share: float | None = field(validator=validator)

    try:
        Shared(value)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_configuration_that_names_no_edition_is_of_the_first() -> None:
    """Recordings from before there were editions replay with the decisions of their time, alone or within a value."""

    @frozen
    class Header:
        config: AgentConfig = AgentConfig()
        configs: tuple[AgentConfig, ...] = ()

    assert from_data({}, AgentConfig) == AgentConfig(edition=1)
    assert from_data({"system": "Be brief.", "limits": {"steps": 4}}, AgentConfig) == AgentConfig(
        "Be brief.", limits=Limits(steps=4), edition=1
    )
    assert from_data({"config": {}, "configs": [{}, {"edition": 3}]}, Header) == Header(
        AgentConfig(edition=1), (AgentConfig(edition=1), AgentConfig())
    )


@pytest.mark.parametrize("edition", [1, 2, 3])
def test_the_edition_is_always_written(edition: int) -> None:
    """Also where it is the default, and nothing else that is."""
    config = AgentConfig(edition=edition)

    assert to_data(config) == {"edition": edition}
    assert from_data(to_data(config), AgentConfig) == config


def test_new_sessions_have_the_newest_edition() -> None:
    assert AgentConfig().edition == EDITION == 3


@pytest.mark.parametrize(
    ("edition", "problem"),
    [
        (0, "edition must be between 1 and 3, not 0$"),
        (-1, "edition must be between 1 and 3, not -1$"),
        (
            4,
            "edition must be between 1 and 3, not 4; a newer version of cogstep wrote it, so read it with that "
            r"version$",
        ),
    ],
)
def test_an_unknown_edition_is_refused_in_words(edition: int, problem: str) -> None:
    """An older version would replay a recording of a newer one wrongly."""
    with pytest.raises(ConfigError, match=problem):
        AgentConfig(edition=edition)
    with pytest.raises(CodecError, match=problem.rstrip("$")):
        from_data({"edition": edition}, AgentConfig)


@pytest.mark.parametrize("value", [None, "2", 1.5, True, [], {}])
def test_an_edition_that_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(CodecError, match="edition"):
        from_data({"edition": value}, AgentConfig)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_data_that_is_no_object_is_no_configuration(value: object) -> None:
    """Though a missing edition would be filled in."""
    with pytest.raises(CodecError):
        from_data(value, AgentConfig)
