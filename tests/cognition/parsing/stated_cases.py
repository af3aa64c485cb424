"""Cases of other parsers' tests as facts of our own: a reply's text in a format, and the message that it is.

``cases/*.json`` holds for each project the formats (those that are not written ones), the tools, and the cases. A case:

    of        what the case is about: the template or the parser of that project
    format    the name of a format
    input     the reply
    text, reasoning, calls    what it says; left out where empty
    unread    calls in it that can't be read: the model is told; left out where there is none
    cut       the same, for a call that the end of the text cuts
    end       how the reply ended, if not by itself
    tools     those that were offered
    differs   why we read it otherwise, a key of ``REASONS``; the message above is then theirs

Names, texts and values are ours. ``python tests/cognition/parsing/stated_cases.py`` prints the table of
``docs/reference/formats.md``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cognition.parsing import FORMATS, FormatSpec
from cognition.steps.codec import from_data
from cognition.values.tools import ToolSpec

FOLDER = Path(__file__).resolve().parent / "cases"

REASONS: Mapping[str, str] = {
    "reasoning wanted in the text": "cogstep has no mode that leaves reasoning and its markers in the text",
    "a call within reasoning": "it never runs; if the reasoning never ends, the model gets a request to end it",
    "a marker wanted in the reasoning": "you never see a marker",
    "words of the prompt wanted in the reasoning": "words of the prompt do not belong to the reply",
    "an answer in a fence": "a code fence around your structured answer stays",
    "a call left out": "a call that can't be read, or has an unusual id, is reported and not omitted",
    "another format in the same tags": "a model has one format: its own",
    "quotation marks wanted off": "you get a text as the model wrote it",
    "arguments that are no object": "your tool can't accept them: the model gets an error",
    "a name guessed from the arguments": "the parser guesses no name: the model gets an unknown-tool error",
    "a broken call shown as text": "a call with a name and the start of arguments is a call: the model gets an error",
    "another type wanted than the format marks": "the format's own marks decide between text and value",
    "a broken value mended": "the parser does not repair it: the model gets the call back",
    "text around calls left out": "you get the text around a call as text",
    "reasoning in a channel without a name": "a channel of reasoning has its name",
    "markers written otherwise": "only the format's own notation is a marker",
    "an empty list taken for no call": "a call began: the model gets an error about the empty list",
    "a call of no tool left out": "the model gets an unknown-tool error",
    "a call without arguments left out": "your tool gets an empty object, with a note on the call",
    "a cut call completed": "the parser never completes a cut call",
    "a call outside of its section left out": "the call's own marker is enough",
    "a list of calls behind other text": "if a section has no end marker, text ends it",
    "one or both of two values taken": "the intended value is unknown: the model gets the call back",
    "white space around a marker taken off": "you get it between two pieces of text",
    "a number with zeros before it": "JSON forbids it, so it stays text, and the schema's check reports it",
    "citations taken out": "cogstep does not know citations: you get their marks as text",
    "an object wanted as text": "an object in a value is an object, not its markers",
    "an answer within reasoning": "the model forgot to end its reasoning: you get the answer",
    "a marker wanted in the text": "you never see a marker",
    "a marker wanted within a value": "the end of a section of nested tags counts at every position",
    "items wanted as an object": "tags named `item` are a list, as in the template",
    "an end forgotten within a line": "a parameter begins only at a line's start, since your text may mention one",
    "a line break wanted in a value": "the line break before the next parameter belongs to the format",
    "a value wanted that no schema tells": "without your schema, a value in tags is text",
    "a doubled name taken for one": "the parser guesses no name: the model gets an unknown-tool error",
    "a message to no tool left out": "a message to a recipient is a call: the model gets an unknown-tool error",
    "a line break wanted between two messages": "the parser adds nothing to your text",
    "text behind the end": "the end marker ends the reply",
    "a call without a name": "a call without a tool name can't be read: the model gets an error",
    "reasoning without its first marker": "reasoning begins with its marker, unless the prompt has opened it",
    "calls in another order": "you get calls in the model's order",
    "parameters that the tool does not have left out": "they stay: the check of the arguments reports them",
}
"""Why a case is read otherwise: what they want, what we do."""

NOT_STATED: Mapping[str, Mapping[str, int | str]] = {
    "llama_cpp": {"duplicates": 38, "that continue a message of the prompt": 70},
    "mlx_lm": {"about detokenising and tokens, which the parser does not see": "those"},
    "vllm": {
        "duplicates": 17,
        "about requests, grammars, token ids and chunking": "those",
        "of nemotron_nano_v2, the same as those of nemotron_json": "those",
        "of parsers that follow a declaration within a checkpoint (response_template, beam)": "those",
        "of parsers for families without a written format whose templates are not among llama.cpp's 70 (csm, cwm, "
        "deepseek_v41, dots, ernie45, exaone4, gigachat35, granite_20b_fc, granite_pythonic, holo2, hunyuan_a13b, "
        "hy_v4, hyperclovax_seed_think, inkling, intern_s1, internlm2, iquest_coder, k2_horizon, longcat, mimo, "
        "minicpmv, olmo3, pangu, plamo3, qwen25_coder, rwkv, step3, xlam)": "those",
    },
}
"""Cases of their tests that are not here, and why."""


def project(name: str) -> dict[str, Any]:
    """All that is stated of a project's tests."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


PROJECTS = {path.stem: project(path.stem) for path in sorted(FOLDER.glob("*.json"))}


def format_of(stated: Mapping[str, Any], case: Mapping[str, Any]) -> FormatSpec:
    """The format that a case is to be read with."""
    name = case["format"]
    if name in FORMATS:
        return FORMATS[name]
    spec = from_data(stated["formats"][name], FormatSpec)
    assert isinstance(spec, FormatSpec)
    return spec


def tools_of(stated: Mapping[str, Any], case: Mapping[str, Any]) -> list[ToolSpec]:
    """The tools that were offered."""
    found = (stated["tools"][name] for name in case.get("tools", ()))
    return [ToolSpec(tool["name"], "", tool["parameters"]) for tool in found]


def message_of(case: Mapping[str, Any]) -> tuple[str, str, list[list[Any]], int]:
    """Text, reasoning, calls, and how many calls can't be read."""
    unread = case.get("unread", case.get("cut", 0))
    return case.get("text", ""), case.get("reasoning", ""), case.get("calls", []), unread


def table() -> Iterator[str]:
    """Lines of Markdown: how many cases of each project are stated and read as stated, and why others are not."""
    yield "| project | cases | same result | other result | not included |"
    yield "|---|---|---|---|---|"
    for name, stated in PROJECTS.items():
        cases = stated["cases"]
        others = sum("differs" in case for case in cases)
        missing = "; ".join(f"{count} {why}" for why, count in NOT_STATED[name].items())
        yield f"| {stated['source']} | {len(cases)} | {len(cases) - others} | {others} | {missing} |"
    yield ""
    yield "| their expectation | cogstep's behaviour | cases |"
    yield "|---|---|---|"
    counts = Counter(case["differs"] for stated in PROJECTS.values() for case in stated["cases"] if "differs" in case)
    for reason, count in counts.most_common():
        yield f"| {reason} | {REASONS[reason]} | {count} |"


if __name__ == "__main__":
    print("\n".join(table()))
