"""The end of a reply, from its program's output, the end of its process, and our reason to end it. Pure.

A reply succeeds only if all of this holds:

- the program has reported the end of its reply, and no error;
- its process exited with 0, or we ended it because it did not exit after the reply.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from attrs import evolve, frozen

from cognition import Failure, FinishReason
from runtime.programs._events import EventReader
from runtime.programs._failures import SESSION_GONE, failure_of
from runtime.programs._process import ProcessEnd, ProcessTimeouts
from runtime.programs._program import Program
from runtime.programs._tether import CANT_START

SIGNALS = {int(number): number.name for number in signal.Signals}


@frozen
class Conclusion:
    """The end of a reply, for its ``Done``."""

    reason: FinishReason
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()


def conclude(
    program: Program, reader: EventReader, ended: ProcessEnd, timeouts: ProcessTimeouts, *, cut: bool, cancelled: bool
) -> Conclusion:
    """Return the end of a reply.

    Args:
        program: the program.
        reader: has read its output to the last byte.
        ended: how its process has ended.
        timeouts: its time limits.
        cut: whether a stop text ended the reply.
        cancelled: whether the caller cancelled it before its end.
    """
    warnings = tuple(reader.warnings)
    if cancelled:
        return Conclusion("cancelled", warnings=warnings)
    if reader.wrong is not None:
        return Conclusion("error", reader.wrong, warnings)
    if cut:
        return Conclusion("stop", warnings=warnings)
    if reader.reason == "length":
        return Conclusion("length", warnings=warnings)
    failure = reader.failure if reader.ended else _unfinished_failure(program, reader, ended, timeouts)
    if failure is not None and ended.how in ("deadline", "silence"):
        failure = _unfinished_failure(
            program, reader, ended, timeouts
        )  # what it said then is how it took the interruption
    if failure is None and ended.how == "itself" and ended.code != 0:
        failure = _classify_stderr(program, ended, f"{_describe_end(ended)} after its answer", "transient")
    if failure is not None:
        return Conclusion("error", _add_advice(program, failure), warnings)
    if ended.how == "lingering":
        warnings = (*warnings, f"{program.name} had to be ended: it did not end by itself after its answer")
    return Conclusion(reader.reason, warnings=warnings)


def _unfinished_failure(program: Program, reader: EventReader, ended: ProcessEnd, timeouts: ProcessTimeouts) -> Failure:
    name = program.name
    if ended.how == "deadline":
        return Failure(f"{name} took longer than {timeouts.deadline:g} s", kind="transient", code="deadline")
    if ended.how == "silence":
        said = f"; its last words were: {_last_line(ended.stderr)}" if ended.stderr else ""
        return Failure(f"{name} was silent for {timeouts.silence:g} s{said}", kind="transient", code="silence")
    if reader.failure is not None:
        return reader.failure
    if ended.code == CANT_START and "can't be started" in ended.stderr:
        return Failure(f"{ended.stderr}; install it again: {program.install}", kind="fatal")
    if ended.code == 0:
        words = reader.noise or ended.stderr
        said = f"; it said: {_last_line(words)}" if words else " and said nothing"
        return Failure(f"{name} ended without an answer{said}", kind="bad_output")
    how = _describe_end(ended)
    return _classify_stderr(
        program, ended, how, "transient" if ended.code is None or ended.code < 0 else None, reader.noise
    )


def _classify_stderr(program: Program, ended: ProcessEnd, how: str, otherwise: str | None, noise: str = "") -> Failure:
    """Classify a failure by stderr; the kind is ``otherwise`` if stderr does not help."""
    words = ended.stderr or noise
    failure = failure_of(program.name, f"{how}; it said: {words}" if words else how)
    if words:
        # The status of an error stands at the beginning of what was said, not of our sentence.
        failure = evolve(failure_of(program.name, words), message=failure.message)
    if SESSION_GONE.search(words):
        return evolve(failure, kind="transient", code="session_gone")
    if failure.kind is None and failure.status is None and otherwise == "transient":
        return evolve(failure, kind="transient")
    return failure


def _describe_end(ended: ProcessEnd) -> str:
    if ended.code is None:
        return "can't be ended: the kernel holds it"
    if ended.code < 0:
        return f"was killed by {SIGNALS.get(-ended.code, f'signal {-ended.code}')}"
    return f"ended with code {ended.code}"


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _add_advice(program: Program, failure: Failure) -> Failure:
    if failure.kind == "auth" and program.sign_in not in failure.message:
        return evolve(failure, message=f"{failure.message}; {program.sign_in}")
    return failure


def without(words: str, secrets: Iterable[str]) -> str:
    """Return the text with all secrets masked that the program received, since it may repeat them."""
    for secret in secrets:
        words = words.replace(secret, "***")
    return words
