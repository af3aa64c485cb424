"""``cogstep doctor --tools FILE``: check which tools of a list can be offered, and which keywords sampling does not
enforce.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import asdict, frozen

from cognition import ConfigError
from cognition.base.display import shown_name
from interpreters.cli._errors import ANSWERED, UNANSWERED
from interpreters.cli.reports.parse_report import list_tools
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import out
from interpreters.tools.tool import Tool
from interpreters.tools.tool_lists import ListedDefinition
from runtime.constrained.nodes import Weakened
from runtime.constrained.tools import read_tool


@frozen
class ToolReport:
    """The findings about one tool."""

    place: int
    name: str
    problem: str
    """Why it can't be offered; empty if it can."""
    weakened: tuple[Weakened, ...]
    """Keywords of its schema that only the check after the call enforces."""


def doctor_tools(path: str, *, as_json: bool) -> int:
    """Check each tool, print the findings, and return the exit code."""
    reports = tuple(map(examine_tool, list_tools(path)))
    usable = not any(report.problem for report in reports)
    if as_json:
        out().write_json({"usable": usable, "tools": [asdict(report) for report in reports]}, indent=2)
    else:
        out().write_lines(tool_lines(path, reports))
    return ANSWERED if usable else UNANSWERED


def examine_tool(listed: ListedDefinition) -> ToolReport:
    """Check whether one tool can be offered."""
    spec = listed.spec
    if spec is None:
        return ToolReport(listed.place, listed.name, listed.problem, ())
    try:
        Tool.from_schema(name=spec.name, parameters=spec.parameters, function=lambda arguments: None)
        return ToolReport(listed.place, spec.name, "", read_tool(spec).weakened)
    except ConfigError as error:
        return ToolReport(listed.place, spec.name, str(error), ())


def tool_lines(path: str, reports: tuple[ToolReport, ...]) -> Iterator[tuple[str, Style]]:
    for report in reports:
        name = shown_name(report.name) or f"tool {report.place}"
        if report.problem:
            yield f"✗ {name}: {report.problem}", "error"
        elif report.weakened:
            yield f"· {name}: calls are held to its schema, apart from", "plain"
            for one in report.weakened:
                yield f"    {one.keyword} @ {one.path}: {one.reason}", "dim"
        else:
            yield f"✓ {name}: calls are held to all of its schema", "plain"
    refused = sum(bool(report.problem) for report in reports)
    weakened = sum(bool(report.weakened) for report in reports)
    yield "", "plain"
    checked = f"{weakened} with something that is checked only after the call"
    yield f"{path}: {len(reports)} tools, {checked}, {refused} that can't be offered", "plain"
