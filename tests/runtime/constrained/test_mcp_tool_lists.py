"""Lists of tools as the servers of others give them: each loads, is held to as far as a grammar can say, and checked.

The lists are our own, in the shapes that servers' libraries write: zod's two printers, pydantic, OpenAPI, Go, by hand.
"""

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonschema import ValidationError
from jsonschema.validators import validator_for

from cognition import ToolSpec
from cognition.parsing import HERMES, parse_reply
from interpreters import Agent, Tool, ToolContext, ToolError, fakes
from interpreters.tools.tool_lists import read_listing

pytest.importorskip("llguidance")
from runtime.constrained.replies import TokenFacts, call_grammar
from runtime.constrained.tools import read_tool
from tests.runtime.constrained.byte_sampling import sampled

LISTS = sorted((Path(__file__).parent / "mcp_tool_lists").glob("*.json"))


def tools_of(path: Path) -> tuple[ToolSpec, ...]:
    return tuple(tool.spec for tool in read_listing(json.loads(path.read_text())) if tool.spec is not None)


SPECS = [spec for path in LISTS for spec in tools_of(path)]


def judge(spec: ToolSpec) -> Any:
    """An independent one, formats included."""
    kind = validator_for(spec.parameters)
    return kind(spec.parameters, format_checker=kind.FORMAT_CHECKER)


def is_true(error: ValidationError) -> bool:
    """Whether it is one in decimals too: the judge divides in floating point, where 39.8 is no multiple of 0.01."""
    return error.validator != "multipleOf" or Decimal(str(error.instance)) % Decimal(str(error.validator_value)) != 0


def made(spec: ToolSpec, function: Any) -> Tool[..., Any]:
    return Tool.from_schema(name=spec.name, description=spec.description, parameters=spec.parameters, function=function)


def test_twenty_lists_are_not_a_handful() -> None:
    assert len(LISTS) >= 20


@pytest.mark.behaviour("S13h")
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_each_list_loads_whole(path: Path) -> None:
    """Every tool of it is offered, and what is left to the check is told."""
    specs = tools_of(path)

    assert len(json.loads(path.read_text())["tools"]) == len(specs)
    with Agent(fakes.ScriptedModel([]), [made(spec, print) for spec in specs]) as agent:
        assert tuple(spec.name for spec in specs) == agent.describe().tools
        weakened = agent.describe().weakened
    assert {spec.name: found for spec in specs if (found := read_tool(spec).weakened)} == weakened


@pytest.mark.behaviour("S13h")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_is_sampled_is_what_the_check_lets_through(spec: ToolSpec) -> None:
    """Where the whole schema is held to, all of it; elsewhere what an independent judge lets through, and no more."""
    ran: list[Any] = []
    tool, whole = made(spec, ran.append), not read_tool(spec).weakened
    grammar = call_grammar(HERMES, (read_tool(spec),), TokenFacts({}), "call", parallel=True)
    for seed in range(4):
        written = sampled(grammar, Random(f"{spec.name} {seed}"), limit=1500)
        if written is None:
            continue
        read = parse_reply(HERMES, f"<tool_call>{written}", tools=(spec,))
        if any("is given twice" in one.reason for one in read.malformed):
            continue  # of keys that are open, which the guide looks after and not the grammar
        (call,) = read.tool_calls
        arguments = json.loads(call.arguments_json)
        right = not any(map(is_true, judge(spec).iter_errors(arguments)))
        assert right or not whole, written
        ran.clear()
        try:
            tool.call(arguments, ToolContext(None))
        except ToolError:
            assert not ran
            assert not whole, written
        else:
            assert right, written
            assert ran == [arguments]
