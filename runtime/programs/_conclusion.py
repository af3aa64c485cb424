"""The end of a reply, from its program's output, the end of its process, and our reason to end it. Pure.

A reply succeeds only if all of this holds:

- the program has reported the end of its reply, and no error;
- its process exited with 0, or we ended it because it did not exit after the reply.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from cognition import Failure, FinishReason
from runtime.children.ending import describe_end
from runtime.programs._events import EventReader
from runtime.programs._failures import SESSION_GONE, failure_of
from runtime.programs._process import CANT_START, ProcessEnd
from runtime.programs._program import Program
from runtime.programs.options import ProgramOptions


@frozen
class Conclusion:
    """The end of a reply, for its ``Done``."""

    reason: FinishReason
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()


def conclude(
    program: Program, reader: EventReader, ended: ProcessEnd, options: ProgramOptions, *, cut: bool, cancelled: bool
) -> Conclusion:
    """Return the end of a reply.

    Args:
        program: the program.
        reader: has read its output to the last byte.
        ended: how its process has ended.
        options: with its time limits.
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
    failure = reader.failure  # after a time limit, it is only how it took the interruption
    if not reader.ended or (failure is not None and ended.how in ("deadline", "silence")):
        failure = _unfinished_failure(program, reader, ended, options)
    elif failure is None and ended.how == "itself" and ended.code != 0:
        failure = _classify_stderr(program, ended, f"{describe_end(ended.code)} after its answer", transient=True)
    if failure is not None:
        if failure.kind == "auth" and program.sign_in not in failure.message:
            failure = evolve(failure, message=f"{failure.message}; {program.sign_in}")
        return Conclusion("error", failure, warnings)
    if ended.how == "lingering":
        warnings = (*warnings, f"{program.name} had to be ended: it did not end by itself after its answer")
    return Conclusion(reader.reason, warnings=warnings)


def _unfinished_failure(program: Program, reader: EventReader, ended: ProcessEnd, options: ProgramOptions) -> Failure:
    name = program.name
    if ended.how == "deadline":
        return Failure(f"{name} took longer than {options.deadline:g} s", kind="transient", code="deadline")
    if ended.how == "silence":
        said = f"; its last words were: {_last_line(ended.stderr)}" if ended.stderr else ""
        return Failure(f"{name} was silent for {options.silence:g} s{said}", kind="transient", code="silence")
    if reader.failure is not None:
        return reader.failure
    if ended.code == CANT_START and "can't be started" in ended.stderr:
        return Failure(f"{ended.stderr}; install it again: {program.install}", kind="fatal")
    if ended.code == 0:
        words = reader.noise or ended.stderr
        said = f"; it said: {_last_line(words)}" if words else " and said nothing"
        return Failure(f"{name} ended without an answer{said}", kind="bad_output")
    killed = ended.code is None or ended.code < 0
    return _classify_stderr(program, ended, describe_end(ended.code), reader.noise, transient=killed)


def _classify_stderr(program: Program, ended: ProcessEnd, how: str, noise: str = "", *, transient: bool) -> Failure:
    """Classify a failure by stderr; the kind is ``transient`` if stderr does not help and the failure may be that."""
    words = ended.stderr or noise
    failure = failure_of(program.name, f"{how}; it said: {words}" if words else how)
    if words:
        # The status of an error stands at the beginning of what was said, not of our sentence.
        failure = evolve(failure_of(program.name, words), message=failure.message)
    if SESSION_GONE.search(words):
        return evolve(failure, kind="transient", code="session_gone")
    if failure.kind is None and failure.status is None and transient:
        return evolve(failure, kind="transient")
    return failure


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def without(words: str, secrets: Iterable[str]) -> str:
    """Return the text with all secrets masked that the program received, since it may repeat them."""
    for secret in secrets:
        words = words.replace(secret, "***")
    return words
