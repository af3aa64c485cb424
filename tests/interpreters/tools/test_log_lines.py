"""What is logged about a program's own errors contains no secret that a recording would hide."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import CallTool, EffectId, ToolCall
from interpreters import Agent, AgentHost, Redaction, ToolContext, hide_secrets, tool
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.log_lines import log_error
from interpreters.tools.tool import run_tool
from tests.interpreters.test_workers import spawn
from tests.interpreters.ways import Way, every_way

KEY = "sk-proj-" + "Ab3dEfGh1jKlMn0pQrStUvWxYz12345678901234567890AB"
WORD = "mysterious-elephant"
REDACT = Redaction({"DB": WORD})


def fail(x: int) -> str:
    """Fail with two secrets: in the exception, in its cause and in a note."""
    try:
        raise ConnectionError(f"login as {WORD}")
    except ConnectionError as cause:
        error = ValueError(f"bad key {KEY}")
        error.add_note(f"url: https://db/?pw={WORD}")
        raise error from cause


async def fail_later(x: int) -> str:
    """Fail."""
    return fail(x)


TOOLS: dict[str, Any] = {
    "here": tool(read_only=True)(fail),
    "on a thread": tool(fail),
    "async": tool(name="fail")(fail_later),
}


def logged(records: Sequence[logging.LogRecord]) -> str:
    return "\n".join(logging.Formatter().format(record) for record in records)


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (KEY, WORD) if secret in text]


@every_way
@pytest.mark.parametrize("where", TOOLS)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_failed_tool_is_logged_without_the_secrets_of_its_error(
    talk: Way, where: str, recorded: bool, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    journal = {"journal": tmp_path / "a.jsonl"} if recorded else {}

    talk(ScriptedModel([call("fail", x=1), "Sorry."]), "Go!", tools=[TOOLS[where]], redact=REDACT, **journal)

    text = logged(caplog.records)
    assert "the tool fail failed\nTraceback (most recent call last):" in text
    assert "ValueError: bad key [redacted:" in text
    assert "ConnectionError: login as [redacted:DB]" in text
    assert secrets_in(text) == []


@every_way
def test_so_is_the_failed_tool_of_a_worker(talk: Way, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([spawn("ann"), call("fail", x=1), "Sorry.", "Done."])

    talk(model, "Go!", tools=[TOOLS["here"]], redact=REDACT, features=["workers"])

    assert "the tool fail failed" in caplog.text
    assert secrets_in(logged(caplog.records)) == []


def test_so_is_the_failed_tool_of_a_handle(caplog: pytest.LogCaptureFixture) -> None:
    with (
        AgentHost.in_thread(ScriptedModel([call("fail", x=1), "Sorry."])) as host,
        host.open("a", [TOOLS["on a thread"]], redact=REDACT) as handle,
    ):
        handle.run("Go!")

    assert "the tool fail failed" in caplog.text
    assert secrets_in(logged(caplog.records)) == []


def shout(_request: object) -> None:
    raise ValueError(f"no {KEY}")


def test_a_failed_hook_and_a_failed_preview_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def show(x: int) -> str:
        return fail(x)

    @tool(approval=True, preview=show)
    def pay(x: int) -> str:
        """Pay."""
        return "paid"

    def approve(request: Any) -> bool:
        return request.preview() is None

    model = ScriptedModel([call("pay", x=1), "Done."])
    hooks = {"after_tool": shout}
    with Agent(model, [pay], approve=approve, hooks=hooks, redact=REDACT) as agent:
        agent.run("Go!")

    text = logged(caplog.records)
    assert ["the preview of the tool pay failed" in text, "could not run the hook after_tool" in text] == [True, True]
    assert secrets_in(text) == []


def test_what_a_call_wants_called_at_its_end_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    context = ToolContext(None, tool="pay", hides=partial(hide_secrets, redact=REDACT))
    context.when_cancelled(partial(fail, 1))
    context.cancel()

    assert "what pay wanted called at its cancellation has failed" in caplog.text
    assert secrets_in(logged(caplog.records)) == []


def test_without_redaction_and_without_secrets_the_line_has_the_exception(caplog: pytest.LogCaptureFixture) -> None:
    """A program's own handlers, such as an error tracker's, look at it."""
    for redact in (None, Redaction({"other": "quite different"}, shapes=())):
        with Agent(ScriptedModel([call("fail", x=1), "Sorry."]), [TOOLS["here"]], redact=redact) as agent:
            agent.run("Go!")

    kinds = [record.exc_info and record.exc_info[0] for record in caplog.records]
    assert kinds == [ValueError, ValueError]


def test_a_redaction_that_fails_lets_nothing_through(caplog: pytest.LogCaptureFixture) -> None:
    def find(text: str) -> Any:
        raise LookupError(text)

    with Agent(ScriptedModel([call("fail", x=1), "Sorry."]), [TOOLS["here"]], redact=Redaction(find=find)) as agent:
        agent.run("Go!")

    assert [record.getMessage() for record in caplog.records] == [
        "the tool fail failed: ValueError (its text is left out, because redaction failed with LookupError)"
    ]
    assert secrets_in(logged(caplog.records)) == []


@settings(max_examples=25)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=4), st.sampled_from([KEY, WORD]), st.booleans())
def test_no_place_in_an_exception_is_overlooked(texts: list[str], secret: str, as_group: bool) -> None:
    """Whatever stands around it: in the message, in a cause, in a context, in a note or within a group."""
    records: list[logging.LogRecord] = []
    keep = logging.Handler()
    keep.emit = records.append  # type: ignore[method-assign]  # a list is all that a test needs
    log = logging.getLogger("cogstep")
    error: BaseException = ValueError(secret)
    for text in texts:
        outer = RuntimeError(text)
        outer.__cause__ = error
        error = outer
    if as_group:
        error = ExceptionGroup("several", [KeyError("a"), ValueError(f"{texts[0]} {secret}")])
    error.add_note(f"{texts[-1]} {secret}")
    log.addHandler(keep)
    try:
        log_error(logging.WARNING, "it failed", error, partial(hide_secrets, redact=REDACT))
    finally:
        log.removeHandler(keep)

    assert [secrets_in(logged(records)), len(records)] == [[], 1]


def test_a_call_outside_of_a_session_is_logged_as_before(caplog: pytest.LogCaptureFixture) -> None:
    effect = CallTool(EffectId("1.1.1"), ToolCall("a", "fail", '{"x": 1}'))

    run_tool(TOOLS["here"], effect, ToolContext(None))

    (record,) = caplog.records
    assert record.exc_info is not None
