"""pydantic-ai on DBOS, in an environment of its own: ``python pydantic_ai_dbos.py URL STEPS ROUNDS``.

The same run as ours in ``benchmarks/durable.py``: a model that calls a tool each time, both answering at once. A
model's call is a step by its ``DBOSDurability``; a tool is one where its author says so, as its documentation advises
for whatever must not be repeated. Prints for each round the milliseconds of a bare step and of one of its own, and the
same of the processor's time.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from time import perf_counter, process_time
from typing import Any

if sqlite3.sqlite_version_info < (3, 42):
    import pysqlite3

    sys.modules["sqlite3"] = sys.modules["sqlite3.dbapi2"] = pysqlite3

from dbos import DBOS
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

TEXT = '{"at":1790000000.123,"input":{"type":"tool_returned","effect_id":"1.1.1","content":"%s"}}' % ("x" * 60)

asked: list[float] = []
worked: list[float] = []
calls = 0


async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    asked.append(perf_counter())
    worked.append(process_time())
    if len(asked) > calls:
        return ModelResponse(parts=[TextPart("Done.")])
    return ModelResponse(parts=[ToolCallPart("look", {"n": len(asked)}, tool_call_id=f"call-{len(asked)}")])


agent: Any = Agent(FunctionModel(model), name="timed", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


@DBOS.step()
async def answer() -> str:
    return TEXT


@DBOS.workflow()
async def bare(steps: int) -> list[float]:
    began = [perf_counter(), process_time()]
    for _ in range(steps):
        await answer()
    return [perf_counter() - began[0], process_time() - began[1]]


@DBOS.workflow()
async def run(text: str) -> str:
    result = await agent.run(text, usage_limits=UsageLimits(request_limit=None))
    return str(result.output)


def result_of(workflow: Any, *arguments: Any) -> Any:
    """What a workflow gives. Untyped: by DBOS's types one of a coroutine function gives the coroutine."""
    return DBOS.start_workflow(workflow, *arguments).get_result()


def main(url: str, steps: int, rounds: int) -> None:
    global calls
    if url.startswith("sqlite:///"):  # as ours has: of a write-ahead log DBOS's steps take half as long
        with closing(sys.modules["sqlite3"].connect(url.removeprefix("sqlite:///"))) as file:
            file.execute("PRAGMA journal_mode=WAL")
    DBOS(config={"name": "peer", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    calls = steps // 2
    for number in range(rounds + 1):
        took, spent = result_of(bare, steps)
        asked.clear()
        worked.clear()
        result_of(run, "Go.")
        if number:
            own = [1e3 * (times[-1] - times[0]) / (2 * calls) for times in (asked, worked)]
            print(1e3 * took / steps, own[0], 1e3 * spent / steps, own[1], flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
