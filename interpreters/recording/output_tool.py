"""A tool that reads the rest of results that were too long for the model.

A recording contains each result whole, with secrets hidden. Long results are in files beside it, see
``journal/payloads.py``. The model reads both ends of a result beyond its limit. ``ReadOutput`` returns the rest, for
every tool and also after a resume.
"""

from __future__ import annotations

from typing import Annotated, Any

from attrs import evolve

from cognition import (
    AgentConfig,
    CancelAsked,
    CogstepError,
    LLMEngine,
    SessionReset,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    WorkerFinished,
)
from cognition.context.window import result_limit
from cognition.steps.inputs import error_text
from cognition.steps.phases import Acting
from interpreters.loop.driver import follower
from interpreters.recording.journal import JournalError, JournalReader
from interpreters.recording.recorder import Where
from interpreters.recording.replay import EngineGiven, logic_of
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, tool

MARGIN = 100
"""Characters reserved for the line that explains how to read on."""
NOTHING = "no result of this session was shortened"


def output_tool(journal: Where) -> Tool[..., Any]:
    """Return the tool ``ReadOutput`` for the session recorded in ``journal``, which must be the ``Agent``'s
    ``journal=``.
    """

    @tool(name="ReadOutput", read_only=True, idempotent=True)
    def read_output(
        context: ToolContext[Any],
        result: Annotated[int, "which of the shortened results: 1 is the newest, 2 the one before it"] = 1,
        offset: Annotated[int, "how many characters of it to skip"] = 0,
        limit: Annotated[int | None, "how many to read; as many as fit where it is left out"] = None,
        call: Annotated[str, "the id of the call whose result to read, as it stands where some is left out"] = "",
    ) -> str:
        """Read what was left out of a result that was too long."""
        for name, value, low in (("result", result, 1), ("offset", offset, 0), ("limit", limit, 1)):
            if value is not None and value < low:
                raise ToolError(f"{name} is {value}, and has to be {low} or more")
        try:
            with JournalReader(journal) as reader:
                config = reader.header.config or AgentConfig()
                if context.session != reader.header.session:
                    raise ToolError(NOTHING)
                found = _results_of(reader, call) if call else _find_shortened(reader)
        except JournalError as error:
            raise ToolError(f"the recording can't be read: {error}") from error
        if not found:
            raise ToolError(f"this session has no result of a call {call!r}" if call else NOTHING)
        if result > len(found):
            raise ToolError(f"result is {result}, and {len(found)} were shortened")
        text = found[-result]
        if offset >= len(text):
            raise ToolError(f"offset is {offset}, and the result has {len(text)} characters")
        fits = max(MARGIN, result_limit(config) - MARGIN)
        end = min(len(text), offset + min(fits, limit or fits))
        more = f"; read on with offset={end}" if end < len(text) else ""
        return f"{text[offset:end]}\n[characters {offset} to {end} of {len(text)}{more}]"

    read_output.spec = evolve(read_output.spec, rereads=True)
    return read_output


def read_result(journal: Where, call: str, engine: EngineGiven = None) -> str:
    """Return the whole result of a call, also if the model read a shortened one.

    Args:
        journal: the recording: a file, or a ``Recorder``.
        call: the id of the call, such as ``call-1-2-1``; of equal ids the newest counts.
        engine: see ``replay``; necessary only for the result of a worker, if the program has an engine of its own.

    Raises:
        JournalError: the recording can't be read, or is damaged.
        CogstepError: the id is unknown, or the call has not ended.
    """
    with JournalReader(journal) as reader:
        found = _results_of(reader, call)
    if found:
        return found[-1]
    with JournalReader(journal) as reader:  # a worker's result, or a text of the engine
        whole, history = _follow(reader, engine)
    results = {message.call_id: message.content for message in history} | whole
    if call in results:
        return results[call]
    there = f"those of this session: {', '.join(results)}" if results else "this session has none"
    raise CogstepError(f"{reader.path}: there is no result of a call {call!r}; {there}")


def _results_of(reader: JournalReader, call_id: str) -> list[str]:
    """Return the result of the call with this id, shortened or not; after retries, only the newest."""
    effects: set[str] = set()
    found: list[str] = []
    for record in reader:
        for decision in record.decisions:
            called = isinstance(decision, dict) and decision.get("type") == "call_tool"
            if called and decision["call"]["id"] == call_id:
                effects.add(decision["effect_id"])
        event = record.input
        if isinstance(event, SessionReset):
            found.clear()
        elif isinstance(event, ToolReturned | ToolFailed) and event.effect_id in effects:
            found = [_text(event)]
    return found


def _find_shortened(reader: JournalReader) -> list[str]:
    """Return the results that history does not contain completely, in the order of their arrival."""
    texts, history = _follow(reader, None)
    cut = {message.call_id for message in history if message.left_out}
    return [text for call_id, text in texts.items() if call_id in cut]


def _follow(reader: JournalReader, engine: EngineGiven) -> tuple[dict[str, str], list[ToolMessage]]:
    """Return the whole results by call id, in the order of their arrival, and the results that history contains.

    History follows from the inputs, so they are replayed. A program's own engine can't be recreated from a journal; the
    usual one then takes its place.
    """
    header = reader.header
    try:
        logic = logic_of(header, engine)
    except CogstepError:
        if engine is not None:
            raise
        logic = LLMEngine(header.config or AgentConfig())
    driver = follower(logic, header.start)
    texts: dict[str, str] = {}
    for record in reader:
        event, phase = record.input, driver.state.phase
        if isinstance(event, ToolReturned | ToolFailed | WorkerFinished) and isinstance(phase, Acting):
            for slot in phase.slots:
                if getattr(slot.status, "effect_id", None) == event.effect_id:
                    texts.pop(slot.call.id, None)
                    texts[slot.call.id] = _text(event)
        driver.restore(event)
    driver.restore(CancelAsked())  # now history has the results of the calls that are running
    return texts, [message for message in driver.state.history if isinstance(message, ToolMessage)]


def _text(event: ToolReturned | ToolFailed | WorkerFinished) -> str:
    if isinstance(event, ToolFailed):
        return error_text(event.message)
    return event.text if isinstance(event, WorkerFinished) else event.content
