"""Lists of tools in which one tool can't be read: the others are, whatever it holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpreters.cli._errors import UNANSWERED
from interpreters.cli.reports.parse_report import list_tools
from interpreters.cli.reports.tool_report import doctor_tools

GOOD = '{"name": "good", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}'
WRAPS = ("[{}, {}]", '\ufeff{{"tools": [{}, {}]}}', '{{"jsonrpc": "2.0", "result": {{"tools": [{}, {}]}}}}')
ODD = {
    "5000 digits": '{"type": "object", "properties": {"a": {"maximum": ' + "9" * 5000 + "}}}",
    "nested too deeply": '{"properties": {"a": ' + '{"not":' * 10_000 + "{}" + "}" * 10_000 + "}}",
    "deeply": '{"default": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "NaN": '{"default": NaN}',
    "Out of range": '{"default": 1e400}',
    "no JSON": '{"properties": {"\\ud800": {}}}',
    "no JSON Schema: $schema": '{"type": "object", "$schema": 3}',
}


@pytest.mark.behaviour("S13f")
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("told", ODD)
def test_one_tool_that_can_not_be_read_hides_no_other(
    told: str, wrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is looked at for itself; a mark of the byte order before the text says nothing."""
    path = tmp_path / "tools.json"
    path.write_text(wrap.format(f'{{"name": "odd", "inputSchema": {ODD[told]}}}', GOOD), encoding="utf-8")

    assert doctor_tools(str(path), as_json=True) == UNANSWERED
    odd, good = json.loads(capsys.readouterr().out)["tools"]
    assert odd["name"] == "odd"
    assert told in odd["problem"]
    assert (good["name"], good["problem"], good["weakened"]) == ("good", "", [])


@pytest.mark.behaviour("S13f")
@pytest.mark.parametrize("depth", [1, 10, 90, 140, 160, 300])
def test_what_can_be_read_is_read_unchanged(depth: int, tmp_path: Path) -> None:
    """Brackets in strings are none; what lies beside something too deep is still there."""
    schema: Any = {"pattern": '["\\{[{', "title": '\\"'}
    for _ in range(depth):
        schema = {"not": schema, "x": "]}"}
    text = json.dumps([{"name": "odd", "parameters": schema}, {"name": "after", "parameters": {"title": "[{"}}])
    path = tmp_path / "tools.json"
    path.write_text(text, encoding="utf-8")
    odd, after = list_tools(str(path))

    assert after.spec is not None
    assert after.spec.parameters == {"title": "[{"}
    assert (odd.spec is not None) == (depth <= 140)
    assert odd.spec is None or odd.spec.parameters == schema
