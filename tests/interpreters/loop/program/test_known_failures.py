"""A call that is known to fail is not asked about: it fails, and the model reads why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cognition import ToolCall, ToolMessage
from interpreters import Agent, ApprovalRequest, AsyncAgent, ToolError, fakes, tool
from interpreters.tools.context import ToolRetry

Run = Callable[..., Any]


def in_sync(model: Any, tools: Any, approve: Any) -> Any:
    with Agent(model, tools=tools, approve=approve) as agent:
        return agent.run("Go!")


def in_asyncio(model: Any, tools: Any, approve: Any) -> Any:
    async def main() -> Any:
        async with AsyncAgent(model, tools=tools, approve=approve) as agent:
            return await agent.run("Go!")

    return asyncio.run(main())


class Asked:
    """Approves, and counts the questions."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, request: ApprovalRequest) -> bool:
        self.calls.append(request.call.arguments_json)
        return True


def writer(preview: Callable[[str], Any] | None = None) -> Any:
    @tool(approval=True, preview=preview)
    def write(path: str) -> str:
        """Write a file."""
        return f"wrote {path}"

    return write


def result_of(run: Run, preview: Callable[[str], Any] | None, arguments: dict[str, Any]) -> tuple[str, int]:
    """Return the result of a call as the model reads it, and how many questions were asked."""
    asked = Asked()
    done = run(fakes.ScriptedModel([fakes.call("write", **arguments), "Done."]), [writer(preview)], asked)
    (message,) = [one for one in done.messages if isinstance(one, ToolMessage)]
    return message.content, len(asked.calls)


def fail(error: Exception) -> Callable[[str], str]:
    def preview(path: str) -> str:
        raise error

    return preview


@pytest.mark.parametrize("run", [in_sync, in_asyncio])
def test_wrong_arguments_fail_without_a_question(run: Run) -> None:
    content, questions = result_of(run, None, {"path": 3})

    assert questions == 0
    assert content.startswith("Error: wrong arguments for write")


@pytest.mark.parametrize("run", [in_sync, in_asyncio])
@pytest.mark.parametrize(
    ("error", "content"),
    [(ToolError("no folder there"), "Error: no folder there"), (ToolRetry("another"), "Error: another\nTry again.")],
)
def test_what_its_preview_finds_fails_without_a_question(run: Run, error: Exception, content: str) -> None:
    assert result_of(run, fail(error), {"path": "a"}) == (content, 0)


@pytest.mark.parametrize(
    "preview", [None, lambda path: path, fail(ToolError("busy", transient=True)), fail(ValueError("of the preview"))]
)
def test_any_other_call_is_asked_about(preview: Callable[[str], Any] | None) -> None:
    """A failure that may pass is none yet, and a preview that is broken says nothing about the call."""
    assert result_of(in_sync, preview, {"path": "a"}) == ("wrote a", 1)


def test_a_request_names_the_failure() -> None:
    call = ToolCall("call-1-1-1", "write", {"path": "a"})
    request = ApprovalRequest(call, "", tool=writer().spec, made=writer(fail(ToolError("no"))))

    assert request.failure() == "no"
