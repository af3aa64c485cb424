"""Run the tools of a recorded session again and report results that differ from the recording.

The recorded model replies, approvals and answers drive the session. The new results are only compared. This is a
regression test of the tools and of their environment.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from cognition import AskApproval, CallTool, ConfigError, Policy, ToolCall, ToolFailed, ToolReturned
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.values.messages import ResultStatus
from interpreters.loop.driver import follower
from interpreters.loop.program.approvals import Approve
from interpreters.loop.program.program import answer_at_once
from interpreters.recording.journal import Header, JournalReader, explain_foreign
from interpreters.recording.recorder import Where
from interpreters.recording.redaction import Redaction
from interpreters.recording.redactor import Redactor, looks_like
from interpreters.recording.replay import engine_of
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool, Usable, as_tools
from interpreters.tools.tool import Tool, run_tool, too_late
from runtime.checking import checked_call

Result = tuple[ResultStatus, str]


@frozen
class LiveDifference:
    """A call with a different result today. ``str()`` gives two lines, one per side."""

    record: int
    """Number of the record with the recorded result, from 1."""
    call: ToolCall
    recorded: Result
    live: Result

    def __str__(self) -> str:
        sides = ("recorded:", self.recorded), ("live:    ", self.live)
        rows = (f"  {name} {status}: {shown_name(content, LONGEST_LINE)}" for name, (status, content) in sides)
        call = f"{shown_name(self.call.name)}({shown_name(self.call.arguments_json, LONGEST_LINE)})"
        return "\n".join((f"record {self.record}: {call} differs", *rows))


@frozen
class RehearsalReport:
    """The result of a rehearsal."""

    path: Path
    header: Header
    calls: int
    """Number of calls that were run and compared."""
    skipped: int
    """Number of calls not run because a secret in their arguments was not recorded."""
    refused: int
    """Number of calls of a foreign recording that were not run because they were not allowed."""
    differences: tuple[LiveDifference, ...]
    warnings: tuple[str, ...]
    foreign: str
    """Why the recording does not count as this user's own; empty if it does."""

    @property
    def same(self) -> bool:
        """Whether every call gave its recorded result."""
        return not self.differences


@checked_call
def rehearse(
    path: Where,
    tools: Iterable[Usable] | Callable[[Path], Iterable[Usable]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    deps: Any = None,
    redact: Redaction | None = None,
    foreign: bool = False,
    policy: Policy | None = None,
    approve: Approve | None = None,
) -> RehearsalReport:
    """Run the calls of a recorded session and compare their results with the recorded results.

    **The tools really run.** Pass a function that creates them for a directory (a new, empty one by default), or give
    them a copy of the data that they change. A call without a recorded result, after a crash or a cancellation, is not
    run.

    The approvals of your own recording apply here too. A foreign recording is refused unless ``foreign`` is True. Each
    call is then judged again, and secrets are not inserted.

    Args:
        path: the journal: a file, or a ``Recorder``.
        tools: the tools, or a function that creates them for a directory. A missing tool counts as failed. Calls of an
            external tool (a ``ToolSpec``) are skipped.
        cwd: that directory. None for a temporary directory, deleted at the end.
        deps: passed to the tools as ``ToolContext.deps``.
        redact: as in the recording, for secrets known by name. In place of any other hidden text, any text matches.
        foreign: whether another user's recording is allowed.
        policy: judges the calls of a foreign recording, with the tools' own ``approval``. None: ``Policy()``.
        approve: called if they ask for approval, as in a session; must not be async. None: such calls are not run.

    Raises:
        JournalError: the file is not a journal, has another version or is damaged.
        ForeignRecordingError: there is no proof that this user wrote it, and ``foreign`` is False.
        ConfigError: ``cwd`` is given, but ``tools`` is not a function.
    """
    if not isinstance(foreign, bool):
        raise ConfigError(f"rehearse: foreign must be True or False, not {foreign!r}")
    if callable(tools):
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(TemporaryDirectory(prefix="cogstep-rehearsal-")) if cwd is None else cwd
            made = tuple(tools(Path(place)))
            return rehearse(path, made, deps=deps, redact=redact, foreign=foreign, policy=policy, approve=approve)
    if cwd is not None:
        raise ConfigError("cwd= is for tools that are made for it: give a function that makes them of a directory")
    given = as_tools(tools)
    ours = {tool.spec.name: tool for tool in given}
    differences: list[LiveDifference] = []
    calls = skipped = refused = 0
    policy = policy or Policy()
    reason = explain_foreign(path, "rehearsed as it is", allowed=foreign)  # of all of it, before anything of it runs
    redactor = Redactor(None if reason else redact)
    with JournalReader(path) as reader:
        driver = follower(engine_of(reader.header), reader.header.start)
        for record in reader:
            event = record.input
            if isinstance(event, ToolReturned | ToolFailed) and isinstance(
                effect := driver.in_flight.get(event.effect_id), CallTool
            ):
                if not reason:  # it may be another file by now; what led to the call is this record and those before it
                    reader.check_own("rehearsed as it is")
                tool = ours.get(effect.call.name)
                if isinstance(tool, ExternalTool) or _was_tried_again(event, tool):
                    pass  # the program gave the result; or the next attempt, which says more of the tool, is on file
                elif redactor.lacks(effect):
                    skipped += 1
                elif reason and not _is_allowed(effect, ours, policy, approve, reader.header.session, deps):
                    refused += 1
                else:
                    calls += 1
                    if reason and tool is not None:  # the rules of the recording are somebody else's
                        specs = {name: one.spec for name, one in ours.items()}
                        effect = evolve(effect, access=policy.access_rules(effect.call, specs))
                    live = _result(_run(ours, redactor.reveal(effect), reader.header.session, deps))
                    status, content = redactor.reveal(_result(event))
                    if status != live[0] or not looks_like(content, live[1]):
                        differences.append(LiveDifference(record.seq, effect.call, _result(event), live))
            driver.restore(event)
        return RehearsalReport(
            reader.path,
            reader.header,
            calls,
            skipped,
            refused,
            tuple(differences),
            tuple(reader.warnings),
            reason or reader.foreign,
        )


def _was_tried_again(event: ToolReturned | ToolFailed, tool: Tool[..., Any] | None) -> bool:
    return isinstance(event, ToolFailed) and event.transient and tool is not None and bool(tool.spec.retries)


def _is_allowed(
    effect: CallTool,
    tools: dict[str, Tool[..., Any]],
    policy: Policy,
    approve: Approve | None,
    session: str,
    deps: Any,
) -> bool:
    tool = tools.get(effect.call.name)
    if tool is None:  # nothing runs, which is a difference
        return True
    verdict = policy.judge(effect.call, tool.spec)
    if verdict.action != "ask":
        return verdict.action == "allow"
    question = AskApproval(effect.effect_id, effect.call, verdict.reason)
    return approve is not None and answer_at_once(approve, question, tool, deps, session)


def _run(tools: dict[str, Tool[..., Any]], effect: CallTool, session: str, deps: Any) -> ToolReturned | ToolFailed:
    call = effect.call
    tool = tools.get(call.name)
    if tool is None:
        return ToolFailed(effect.effect_id, f"this program has no tool {call.name!r}")
    context = ToolContext(deps, session=session, call_id=call.id, tool=call.name, access=effect.access)
    if tool.timeout is None:
        return run_tool(tool, effect, context)
    answer: SimpleQueue[ToolReturned | ToolFailed] = SimpleQueue()
    run = partial(run_tool, tool, effect, context)
    threading.Thread(target=lambda: answer.put(run()), name="cogstep tool", daemon=True).start()
    try:
        return answer.get(timeout=tool.timeout)
    except Empty:
        context.cancel()
        return too_late(tool, effect)


def _result(event: ToolReturned | ToolFailed) -> Result:
    return ("ok", event.content) if isinstance(event, ToolReturned) else ("error", event.message)
