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
    "reasoning wanted in the text": "a mode that leaves reasoning and its markers in the text, which there is not here",
    "a call within reasoning": "nothing in reasoning is a call; where it is never ended, the model is told to end it",
    "a marker wanted in the reasoning": "no marker is ever shown",
    "words of the prompt wanted in the reasoning": "what the prompt said is not the model's",
    "an answer in a fence": "a fence of code around a structured answer stays",
    "a call left out": "a call that can't be read, or has an unusual id, is told and not left out",
    "another format in the same tags": "one format for a model: its own",
    "quotation marks wanted off": "a text is kept as it was written",
    "arguments that are no object": "no tool takes them: the model is told",
    "a name guessed from the arguments": "no name is guessed: the model is told that there is no such tool",
    "a broken call shown as text": "a call whose name and arguments have begun is one: the model is told what is wrong",
    "another type wanted than the format marks": "what the format marks as text is text, and what as a value is one",
    "a broken value mended": "not mended: the call goes back to the model",
    "a quote mended that stands within a text": "it is mended, and noted on the call",
    "text around calls left out": "text around a call is text",
    "reasoning in a channel without a name": "a channel of reasoning says so",
    "markers written otherwise": "a marker is what the format writes",
    "an empty list taken for no call": "a call was begun: the model is told that there is none",
    "a call of no tool left out": "the model is told that there is no such tool",
    "a call without arguments left out": "no arguments are an empty object, which is noted on the call",
    "a cut call completed": "a call that was cut is never completed",
    "a call outside of its section left out": "a call's own marker is enough",
    "a list of calls behind other text": "where nothing marks a section's end, text ends it",
    "one or both of two values taken": "which is meant is not known: the call goes back to the model",
    "white space around a marker taken off": "between two pieces of text it stays",
    "a number with zeros before it": "it is none in JSON, so it stays text, and the schema's check tells the model",
    "citations taken out": "there is no notion of citations: their marks are text",
    "an object wanted as text": "an object in a value is read as one, not as its markers",
    "an answer within reasoning": "the model forgot to end its reasoning: the answer counts",
    "a marker wanted in the text": "no marker is ever shown",
    "a marker wanted within a value": "the end of a section of nested tags is one wherever it stands",
    "items wanted as an object": "tags named `item` are a list, as the template writes one",
    "an end forgotten within a line": "another parameter begins where a line does: a text may well speak of one",
    "a line break wanted in a value": "the one before the next parameter is the format's",
    "a value wanted that no schema tells": "without a schema, a value in tags is text",
    "a doubled name taken for one": "no name is guessed: the model is told that there is no such tool",
    "a message to no tool left out": "a message to somebody is a call: the model is told that there is no such tool",
    "a line break wanted between two messages": "nothing is added to a text",
    "text behind the end": "what ends a reply ends it",
    "a call without a name": "a call that names no tool can't be read: the model is told",
    "reasoning without its first marker": "reasoning begins with its marker, unless the prompt has begun it",
    "calls in another order": "calls stay in the order in which they were written",
    "parameters that the tool does not have left out": "they are kept: the check of the arguments tells the model",
}
"""Why a case is read otherwise: what they want, what we do."""

NOT_STATED: Mapping[str, Mapping[str, int | str]] = {
    "llama_cpp": {"stated twice there": 38, "that go on with a message which the prompt has begun": 70},
    "mlx_lm": {"of detokenising and of tokens, which the parser knows nothing of": "those"},
    "vllm": {
        "stated twice there": 17,
        "of requests, grammars, token ids and the making of chunks": "those",
        "of nemotron_nano_v2, which are those of nemotron_json": "those",
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
    yield "| from | cases | read as stated | read otherwise | not stated |"
    yield "|---|---|---|---|---|"
    for name, stated in PROJECTS.items():
        cases = stated["cases"]
        others = sum("differs" in case for case in cases)
        missing = "; ".join(f"{count} {why}" for why, count in NOT_STATED[name].items())
        yield f"| {stated['source']} | {len(cases)} | {len(cases) - others} | {others} | {missing} |"
    yield ""
    yield "| what they want | what we do | cases |"
    yield "|---|---|---|"
    counts = Counter(case["differs"] for stated in PROJECTS.values() for case in stated["cases"] if "differs" in case)
    for reason, count in counts.most_common():
        yield f"| {reason} | {REASONS[reason]} | {count} |"


if __name__ == "__main__":
    print("\n".join(table()))
