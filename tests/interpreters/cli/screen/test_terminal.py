"""Streams as terminals show them, and the two kinds of output over them."""

import io
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from cognition import Completed, EffectId, Usage
from interpreters import events
from interpreters.cli.screen.output import JsonLines, Output, Screen
from interpreters.cli.screen.terminal import ERASE_LINE, StatusLine, Terminal, bar


def happened(value: events.EventValue) -> events.Event:
    return events.Event("s", 1, 1, 1, 1, value)


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A stream that nobody reads any more."""

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("stream", "environment", "colours", "moves"),
    [
        (Tty(), {"TERM": "xterm"}, True, True),
        (Tty(), {}, True, True),
        (Tty(), {"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        (Tty(), {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        (Tty(), {"TERM": "dumb"}, False, False),
        (io.StringIO(), {"TERM": "xterm"}, False, False),
    ],
)
def test_colour_and_movement_are_for_terminals_that_want_them(
    stream: io.StringIO, environment: Mapping[str, str], colours: bool, moves: bool
) -> None:
    """NO_COLOR, when it is not empty, takes the colour; TERM=dumb and files take both."""
    terminal = Terminal(stream, environment)

    assert (terminal.colours, terminal.moves) == (colours, moves)


def test_a_style_is_one_escape_sequence_around_the_text() -> None:
    """On a terminal errors are red, and a line break alone is not coloured."""
    stream = Tty()
    terminal = Terminal(stream, {})
    terminal.write("no", "error")
    terminal.write("\n", "error")
    terminal.write("never\n", "error")
    terminal.write("yes")

    assert stream.getvalue() == "\x1b[31mno\x1b[0m\n\x1b[31mnever\x1b[0m\nyes"


def test_text_can_not_steer_the_terminal() -> None:
    """Escape sequences of a model or a file are shown, whether or not a terminal reads them at once."""
    hostile = "\x1b]0;owned\x07 \x9b31m\u202e\r\n\tok\n"
    screen, file = Tty(), io.StringIO(newline="")
    Terminal(screen, {}).write(hostile)
    Terminal(file, {}).write(hostile)

    assert screen.getvalue() == "\\x1b]0;owned\\x07 \\x9b31m\\u202e\n\tok\n"
    assert file.getvalue() == screen.getvalue()


ANSWER = st.text("a\r\n\x1b[2J\u202e👨\u200d❤\ufe0f1م\u200cé")


@given(ANSWER, st.lists(st.integers(0, 40)), st.booleans())
def test_however_an_answer_is_cut_into_pieces_it_is_shown_the_same(
    text: str, cuts: list[int], on_terminal: bool
) -> None:
    """Sequences that are split stay shown, joiners keep what they join, and the halves of CRLF are one line end."""
    whole, pieces = (Tty() if on_terminal else io.StringIO(newline="") for _ in range(2))
    Terminal(whole, {}).write(text + "\n")
    terminal, ends = Terminal(pieces, {}), sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    for start, end in pairwise(ends):
        terminal.write(text[start:end])
    terminal.write("\n")

    assert pieces.getvalue() == whole.getvalue()


@pytest.mark.parametrize(
    ("done", "filled", "percent"), [(0.0, 0, "0%"), (0.5, 15, "50%"), (1.0, 30, "100%"), (7, 30, "100%")]
)
def test_a_bar_is_as_full_as_the_work_is_done(done: float, filled: int, percent: str) -> None:
    """The bar has a fixed width and says the percentage."""
    assert bar("loading", done) == f"loading {'█' * filled}{'░' * (30 - filled)} {percent:>4}"


def test_a_status_line_leaves_nothing_behind() -> None:
    """What comes and goes is erased before anything else is written; where lines can't move it is never drawn."""
    terminal, file = Tty(), io.StringIO()
    for stream in (terminal, file):
        status = StatusLine(Terminal(stream, {}))
        status.show("loading")
        status.show("loading")
        status.clear()
        status.clear()

    assert terminal.getvalue() == f"{ERASE_LINE}\x1b[2mloading\x1b[0m{ERASE_LINE}"
    assert file.getvalue() == ""


def test_a_screen_writes_the_answer_to_one_stream_and_the_rest_to_the_other() -> None:
    """Without a terminal there is no thinking, no summary, no colour."""
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(Terminal(out, {}), Terminal(err, {}))
    tell(screen)

    assert out.getvalue() == "391\n"
    assert err.getvalue() == ""


def test_verbose_shows_all_of_it_anywhere() -> None:
    """-v brings thinking and summary to a file too."""
    out, err = io.StringIO(), io.StringIO()
    tell(Screen(Terminal(out, {}), Terminal(err, {}), verbose=True))

    assert out.getvalue() == "391\n"
    assert err.getvalue() == "Hm.\n1 reply, 1 tokens in, 0 out, 0.50 s in the model\n"


def test_what_was_begun_is_ended_before_somebody_else_writes() -> None:
    """A turn that breaks off in the middle of a line leaves the cursor at the beginning of the next."""
    out = io.StringIO()
    screen = Screen(Terminal(out, {}), Terminal(io.StringIO(), {}))
    screen(happened(events.TextDelta("39")))
    screen.clear()

    assert out.getvalue() == "39\n"


@pytest.mark.parametrize("kind", [Screen, JsonLines])
def test_a_stream_that_fails_is_told_once_and_left_alone(kind: type[Screen | JsonLines]) -> None:
    """An output never raises into the agent: it keeps the error, says so once, and writes no more."""
    output = kind(Terminal(Broken(), {}), Terminal(io.StringIO(), {}))
    told = []
    output.on_failure = lambda: told.append(output.failure)
    tell(output)

    assert len(told) == 1
    assert isinstance(output.failure, BrokenPipeError)


def tell(output: Output) -> None:
    """One short turn."""
    output(happened(events.UserSpoke("?", at=10.0)))
    output(happened(events.ModelCalled(EffectId("1.1.1"), "answer", 1)))
    output(happened(events.ReasoningDelta("Hm.")))
    output(happened(events.TextDelta("391")))
    output(happened(events.ModelReplied(EffectId("1.1.1"), "391", at=10.5)))
    output(happened(events.TurnFinished(Completed("391"), Usage(1))))
