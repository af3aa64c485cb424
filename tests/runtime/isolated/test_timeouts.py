"""When a process is held to be stopped or hung: told what was heard and how long nothing, without a clock."""

import pytest
from hypothesis import given, strategies as st

from cognition.parsing import TextDelta
from runtime import ModelSpecError
from runtime.isolated import wire
from runtime.isolated.settings import LONGEST_DELAY, Isolation
from runtime.isolated.supervisor import HangDetector

SETTINGS = Isolation(silence=8, deadline=40, start=60)
TICK = 2.0
SAID = wire.Produced(((1, TextDelta("a")),))


def after(patience: HangDetector, seconds: float) -> str:
    """As the supervisor waits: never longer than a tick at once."""
    verdict = ""
    while seconds > 0 and not verdict:
        verdict = patience.wait(min(TICK, seconds))
        seconds -= TICK
    return verdict


def test_silence_is_told_from_a_hang() -> None:
    """Of a process that stands still nothing comes; of native code that hangs, the same number of steps again."""
    stopped, hung = HangDetector(SETTINGS), HangDetector(SETTINGS)
    stopped.note_message(wire.Pulse(1))
    assert after(stopped, 7) == ""
    assert "no sign of life for 8 s" in after(stopped, 2)

    verdicts = []
    for _ in range(20):
        hung.note_message(wire.Pulse(7))
        verdicts.append(hung.wait(TICK))
    assert verdicts[:19] == [""] * 19
    assert "came no further for 40 s" in verdicts[19]


def test_it_may_take_its_time_to_start() -> None:
    """Before Python runs in it, it can't say anything."""
    patience = HangDetector(SETTINGS)

    assert after(patience, 59) == ""
    assert "no sign of life for 60 s" in after(patience, 2)


@given(st.lists(st.tuples(st.sampled_from(("pulse", "said", "quiet")), st.floats(0, 7)), max_size=60))
def test_what_goes_on_is_never_killed(steps: list[tuple[str, float]]) -> None:
    """Whatever comes in less than the silence, as long as its steps go on, or it says something."""
    patience = HangDetector(SETTINGS)
    patience.loading = False
    patience.note_message(wire.Pulse(0))
    for number, (what, seconds) in enumerate(steps, 1):
        if what == "quiet":
            assert after(patience, min(seconds, 3)) == ""
        patience.note_message(SAID if what == "said" else wire.Pulse(number))
        assert after(patience, min(seconds, 3)) == ""
        patience.note_message(wire.Pulse(number))


@given(st.floats(0, 1e9))
def test_one_long_wait_is_no_silence(seconds: float) -> None:
    """When the parent itself was stopped, or the machine slept, it looks again before it judges."""
    patience = HangDetector(SETTINGS)
    patience.note_message(wire.Pulse(1))

    assert patience.wait(seconds) == ""


def test_while_there_is_nothing_to_do_nothing_is_expected() -> None:
    """An idle process is silent."""
    patience = HangDetector(SETTINGS)
    patience.note_message(SAID)
    after(patience, 7)
    patience.rest()

    assert after(patience, 7) == ""


def test_restarts_come_later_each_time() -> None:
    """The first one at once; never more than the longest."""
    settings = Isolation(backoff=0.5)

    assert [settings.delay(deaths) for deaths in range(6)] == [0, 0, 0.5, 1, 2, 4]
    assert settings.delay(10_000) == LONGEST_DELAY


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deadline": 0}, "Isolation.deadline must be above 0, not 0"),
        ({"silence": float("nan")}, "Isolation.silence must be above 0"),
        ({"start": -1}, "Isolation.start must be above 0"),
        ({"restarts": -1}, "Isolation.restarts must not be negative"),
        ({"backoff": -0.1}, "Isolation.backoff must not be negative"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    """At once, and by name."""
    with pytest.raises(ModelSpecError, match=message):
        Isolation(**change)  # type: ignore[arg-type]  # what is tested
