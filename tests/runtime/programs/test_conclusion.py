"""How a reply ended: a success is what was said to be over, without an error, by a process that ended well."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import Failure
from cognition.steps.retry import classify
from runtime.programs._claude import CLAUDE
from runtime.programs._codex import CODEX
from runtime.programs._conclusion import Conclusion, conclude, without
from runtime.programs._process import CANT_START, How, ProcessEnd
from runtime.programs._program import Program
from runtime.programs.options import ProgramOptions
from tests.runtime.programs.test_readers import CLAUDE_STREAM, CODEX_STREAM, written

STREAMS = {"claude": (CLAUDE, written(*CLAUDE_STREAM)), "codex": (CODEX, written(*CODEX_STREAM))}
PATIENCE = ProgramOptions(deadline=60.0, silence=5.0, grace=1.0)
HOWS: tuple[How, ...] = ("itself", "cancelled", "deadline", "silence", "stopped", "lingering")
CODES = st.none() | st.integers(-20, 130)


def end_of(
    program: Program, data: bytes, ended: ProcessEnd, *, cut: bool = False, cancelled: bool = False
) -> Conclusion:
    reader = program.reader(program.options(), False)
    reader.feed(data)
    reader.finish()
    return conclude(program, reader, ended, PATIENCE, cut=cut, cancelled=cancelled)


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data(), how=st.sampled_from(HOWS), code=CODES, stderr=st.text(max_size=20))
def test_a_stream_that_is_cut_is_never_a_success(
    name: str, data: st.DataObject, how: How, code: int | None, stderr: str
) -> None:
    """Wherever it is cut and however its process ended; a whole one is a success where that went well."""
    program, whole = STREAMS[name]
    size = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    end = end_of(program, whole[:size], ProcessEnd(how, code, stderr))

    complete = size >= len(whole) - 1  # the last line may be without its end
    well = how != "itself" or code == 0
    assert (end.reason, end.failure is None) == (("stop", True) if complete and well else ("error", False))
    if end.failure is not None:
        assert program.name in end.failure.message
        assert len(end.failure.message) < 1500


@given(st.sampled_from(HOWS), CODES, st.booleans())
def test_what_was_cancelled_says_so(how: How, code: int | None, cut: bool) -> None:
    """Whatever else went wrong on the way."""
    assert end_of(CLAUDE, b"{", ProcessEnd(how, code), cut=cut, cancelled=True).reason == "cancelled"


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        (ProcessEnd("deadline", -2), "transient", "took longer than 60 s"),
        (
            ProcessEnd("silence", -9, "waiting for it"),
            "transient",
            "silent for 5 s; its last words were: waiting for it",
        ),
        (ProcessEnd("itself", -11), "transient", "was killed by SIGSEGV"),
        (ProcessEnd("cancelled", None), "transient", "can't be ended"),
        (ProcessEnd("itself", 0), "bad_output", "without an answer and said nothing"),
        (ProcessEnd("itself", 0, "all\nis well"), "bad_output", "it said: is well"),
        (ProcessEnd("itself", 1), "fatal", "ended with code 1"),
        (ProcessEnd("itself", 1, "429 Too Many Requests"), "rate_limit", "ended with code 1; it said: 429"),
        (ProcessEnd("itself", 1, "No conversation found with session ID: x"), "transient", "No conversation"),
        (ProcessEnd("itself", CANT_START, "/x/claude can't be started: No such file"), "fatal", "npm install"),
        (ProcessEnd("itself", 1, "Not logged in"), "auth", "sign in with `claude`"),
    ],
)
def test_what_is_not_over_says_why(ended: ProcessEnd, kind: str, words: str) -> None:
    """The most that is known: our reason, the signal, the words on stderr, the code."""
    failure = end_of(CLAUDE, b"", ended).failure

    assert failure is not None
    assert classify(failure) == kind
    assert words in failure.message


def test_a_stop_text_ends_a_reply_well() -> None:
    """The process was interrupted for it."""
    assert end_of(CLAUDE, b"", ProcessEnd("stopped", -2), cut=True) == Conclusion("stop")


def test_what_can_not_be_believed_counts_before_how_it_ended() -> None:
    failure = end_of(CODEX, b'{"type": \n', ProcessEnd("stopped", -9)).failure

    assert failure is not None
    assert failure.kind == "bad_output"


def test_one_that_lingered_is_a_success_with_a_warning() -> None:
    program, whole = STREAMS["claude"]
    end = end_of(program, whole, ProcessEnd("lingering", -9))

    assert (end.reason, len(end.warnings)) == ("stop", 1)


def test_secrets_are_taken_out_of_words() -> None:
    """Longer ones first, so that none is left in part."""
    failure = Failure("the key abcdef-123 of abcdef")

    assert evolve(failure, message=without(failure.message, ("abcdef-123", "abcdef"))).message == "the key *** of ***"
