"""What a call would do, as a tool's own function says it; nothing that it does wrong reaches the session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cognition import ConfigError, ToolCall
from interpreters import Agent, Approval, ApprovalRequest, Preview, Tool, ToolContext, ToolError, fakes, tool

CONTEXT: ToolContext[Any] = ToolContext({"Ada": 7}, session="s", call_id="c")


def paying(preview: Callable[..., Any]) -> Tool[..., Any]:
    @tool(approval=True, preview=preview)
    def pay(to: str, amount: int = 1) -> str:
        """Pay somebody."""
        raise AssertionError("a preview calls no tool")

    return pay


def of(preview: Callable[..., Any], **arguments: Any) -> Preview | None:
    return paying(preview).preview(arguments, CONTEXT)


def with_context(to: str, given: ToolContext[dict[str, int]]) -> str:
    return f"{to} has {given.deps[to]}"


def lines_of(to: str) -> Iterator[str]:
    yield "to"
    yield f"{to}\nand more"


@pytest.mark.parametrize(
    ("preview", "expected"),
    [
        (lambda to, amount: f"{amount} to {to}", ("1 to Ada",)),
        (lambda amount: f"{amount}", ("1",)),
        (lambda to, more=3: f"{to} {more}", ("Ada 3",)),
        (lambda **given: f"{sorted(given)}", ("['amount', 'to']",)),
        (lambda: "a payment\n", ("a payment",)),
        (with_context, ("Ada has 7",)),
        (lines_of, ("to", "Ada", "and more")),
        (lambda to: [to, "x"], ("Ada", "x")),
        (lambda to: Preview(to, note="now"), ("Ada",)),
        (lambda to: "", ()),
    ],
)
def test_a_preview_is_a_function_of_some_of_the_arguments(preview: Any, expected: tuple[str, ...]) -> None:
    """Defaults are those of the tool; a text, lines or a whole preview are given."""
    shown = of(preview, to="Ada")

    assert shown is not None
    assert shown.lines == expected


def test_nothing_is_said_by_a_tool_without_one_and_by_one_that_gives_none() -> None:
    @tool
    def plain() -> str:
        """Do."""
        return "x"

    assert plain.preview({}, CONTEXT) is None
    assert of(lambda to: None, to="Ada") is None


def failing(error: BaseException) -> Callable[..., Any]:
    def preview(to: str) -> str:
        raise error

    return preview


async def never() -> str:
    return "x"


@pytest.mark.parametrize(
    "preview",
    [
        failing(KeyError("x")),
        failing(SystemExit(3)),
        failing(RecursionError()),
        failing(GeneratorExit()),
        lambda to: 3,
        lambda to: [3],
        lambda to: {"to": to},
        lambda to: b"bytes",
        lambda to: never(),
        lambda to: Preview(("x",), sort="other"),  # type: ignore[arg-type]  # that is the test
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_preview_that_fails_is_none_and_a_warning(preview: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cogstep"):
        assert of(preview, to="Ada") is None

    assert "the preview of the tool pay failed" in caplog.text


def test_a_call_that_would_fail_says_why_on_one_line() -> None:
    """By its arguments, or by what the preview finds; the function is not asked about arguments that are wrong."""
    shown = of(failing(ToolError("no such account:\nAda\nBob")), to="Ada")
    assert shown == Preview(note="this call would fail: no such account")
    shown = of(failing(AssertionError()), amount=3)
    assert shown is not None
    assert (shown.lines, "would fail: wrong arguments for pay: " in shown.note) == ((), True)


@pytest.mark.parametrize(
    ("preview", "error"),
    [
        (lambda amuont: "", "takes 'amuont', which is no argument of the tool; did you mean 'amount'?"),
        (lambda to, /: "", "'/' get none"),
        (lambda *to: "", "get none"),
        (never, "has to be a plain function"),
        (3, "preview"),
    ],
)
def test_a_preview_that_can_not_be_called_is_refused_where_the_tool_is_made(preview: Any, error: str) -> None:
    with pytest.raises(ConfigError, match="preview") as raised:
        paying(preview)

    assert error in str(raised.value)


class Shop:
    """With tools of its own."""

    stock = 5

    def shown(self, count: int) -> str:
        return f"{count} of {self.stock}"

    @tool(approval=True, preview=shown)
    def sell(self, count: int) -> str:
        """Sell."""
        return "sold"


def test_a_preview_may_be_a_method_as_its_tool_is() -> None:
    shown = Shop().sell.preview({"count": 2}, CONTEXT)

    assert shown is not None
    assert shown.lines == ("2 of 5",)


def test_a_tool_of_a_schema_previews_with_the_arguments_as_one_dictionary() -> None:
    def shown(arguments: dict[str, Any], context: ToolContext[Any]) -> str:
        return f"{context.session} {arguments}"

    made = Tool.from_schema(
        name="x", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}, function=print, preview=shown
    )

    found = made.preview({"a": 1}, CONTEXT)
    assert found == Preview("s {'a': 1}")
    wrong = made.preview({"a": "1"}, CONTEXT)
    assert wrong is not None
    assert wrong.note.startswith("this call would fail: wrong arguments for x")


def test_a_program_that_is_asked_may_look_at_the_preview_or_not() -> None:
    """Of the call, and of the same tool with other arguments; it is made for each, and once before each question."""
    made: list[int] = []
    seen: list[Preview | None] = []

    def shown(amount: int, context: ToolContext[str]) -> str:
        made.append(amount)
        return f"{amount} {context.deps} {context.call_id} {context.tool}"

    @tool(approval=True, preview=shown)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    @tool(approval=True)
    def plain() -> str:
        """Without one."""
        return "done"

    def approve(request: ApprovalRequest) -> bool:
        if request.call.name == "plain" or request.call.arguments["amount"] > 1:
            seen.append(request.preview())
            if request.call.name == "pay":
                seen.append(request.preview({"amount": 9}))
        return True

    calls = [fakes.call("pay", amount=1), fakes.call("pay", amount=2), fakes.call("plain"), "Done."]
    with Agent(fakes.ScriptedModel(calls), [pay, plain], approve=approve, deps="euros") as agent:
        agent.run("Pay.")

    assert made == [1, 2, 2, 9]  # before each question, to see that the call may work
    assert [one and one.lines[0].partition(" call")[0] for one in seen] == ["2 euros", "9 euros", None]
    assert seen[0] is not None
    assert seen[0].lines[0].endswith(" pay")
    assert ApprovalRequest(ToolCall("c", "pay", {}), "made by hand").preview() is None


def test_a_preview_that_changes_its_arguments_changes_no_call() -> None:
    """Neither the model's nor those that the user has edited."""

    def shown(arguments: dict[str, Any]) -> str:
        arguments["items"].append("and more")
        return "harmless"

    def bought(arguments: dict[str, Any]) -> str:
        return str(arguments["items"])

    schema = {"type": "object", "properties": {"items": {"type": "array"}}}
    buy = Tool.from_schema(name="buy", parameters=schema, function=bought, approval=True, preview=shown)

    def approve(request: ApprovalRequest) -> Approval:
        edited = {"items": ["plum"]}
        assert request.preview() == request.preview(edited) == Preview("harmless")
        return Approval(True, arguments=None if request.call.arguments["items"] == ["pear"] else edited)

    calls = [fakes.call("buy", items=["pear"]), fakes.call("buy", items=["apple"]), "Done."]
    with Agent(fakes.ScriptedModel(calls), [buy], approve=approve) as agent:
        first, second = agent.run("Buy.").calls

    assert first.content == "['pear']"
    assert second.content.startswith("['plum']")
