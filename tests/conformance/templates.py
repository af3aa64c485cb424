"""What the chat templates of real model families write, parsed with the format that is found for them.

    python tests/conformance/templates.py                 every template; ``make conformance`` is the same
    python tests/conformance/templates.py --only qwen -v  those with "qwen" in their name, with what went wrong
    python tests/conformance/templates.py --short         ten of all kinds, for which 1 MB is downloaded

Where they come from says ``tests/conformance/sources.py``.

Each renders conversations whose last message is an assistant's: with reasoning, text, one call, two calls, values of
all kinds. What it wrote for that message is parsed whole, character by character and cut at random, and has to come
back. Then it is asked to render what an agent asks for: a question without tools, or with tools that may not be called,
the answer after a call, with the tools and, at the step limit, without them, and a reply without reasoning. The prompt
has to hold all that was said.

A cell of the table says ``ok``; ``-`` where the template itself leaves that out or refuses it; ``no`` where it fails
and the template's warnings, or the prompt's, say so; ``WRONG`` where nothing says so. Where a format holds words of the
conversations it was found by, or of these, ``answer`` is WRONG. Then it looks at what was written down of an earlier
run: the table in ``docs/reference/formats.md``, and the formats that the restated cases of llama.cpp's tests are read
with. Exit status: 0, or 1 if any cell is WRONG or something written down is out of date, 2 if the templates can't be
had, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `python tests/conformance/templates.py`

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    Message,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from cognition.parsing import FormatSpec, Parser, Reply, collect
from runtime.errors import TemplateError
from runtime.templates._conversation import NO_TOOLS, Entry, entries, in_parts, tool_entries
from runtime.templates._probes import continuation, holds_probes, prompt_of, texts_of, with_opened, with_opened_in_reply
from runtime.templates._protection import Shield
from runtime.templates.files import find_template
from runtime.templates.markers import Markers
from runtime.templates.template import FALLBACK_TEMPLATE, LIST, ChatTemplate, fingerprint
from tests.cognition.parsing.stated_cases import PROJECTS, format_of
from tests.conformance.sources import SourceError, templates

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md"
CACHE = Path(__file__).resolve().parent / ".cache"

SHORT = (
    "trl/gemma4_v5",
    "trl/glm4moe",
    "trl/gptoss",
    "trl/llama3_1",
    "trl/nemotron_3_ultra",
    "trl/phi3_5",
    "trl/qwen3_8",
    "restated/Hermes tool_use",
    "restated/mistral_parallel",
    "restated/Olmo 3",
)
"""Ten that have little in common."""

QUESTION, SYSTEM, RESULT = "Where does it live?", "Be brief, please.", "In the Congo, mostly."
REASONING, TEXT = "The user wants a zebra, so I look it up.", "I'll look that up for you."

TOOLS = (
    ToolSpec(
        "lookup",
        "Looks something up.",
        {
            "type": "object",
            "properties": {
                "q": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many."},
                "exact": {"type": "boolean", "description": "No synonyms."},
                "ratio": {"type": "number", "description": "How near."},
                "filter": {"type": "object", "additionalProperties": {"type": "array"}, "description": "What to skip."},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Labels."},
            },
            "required": ["q"],
        },
    ),
    ToolSpec(
        "current_time",
        "Tells the time.",
        {"type": "object", "properties": {"zone": {"type": "string", "description": "Where."}}, "required": []},
    ),
)

SOUGHT = {"q": "okapi"}
PLAIN = {"q": "zebra"}
NESTED = {"q": "5", "limit": 5, "exact": True, "ratio": 0.5, "filter": {"a": [1, {"b": "x"}]}, "tags": ["t", "u v"]}
UNICODE = {"q": '日本 é 😀 "quoted" it\'s\nC:\\dir {brace} <tag> [list]'}


def _call(place: int, name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(f"call{place:05d}", name, json.dumps(arguments, ensure_ascii=False))


CASES: Mapping[str, AssistantMessage] = {
    "text": AssistantMessage("m2", TEXT),
    "think": AssistantMessage("m2", TEXT, reasoning=REASONING),
    "call": AssistantMessage("m2", calls=(_call(1, "lookup", PLAIN),)),
    "text+call": AssistantMessage("m2", TEXT, calls=(_call(1, "lookup", PLAIN),)),
    "think+call": AssistantMessage("m2", reasoning=REASONING, calls=(_call(1, "lookup", PLAIN),)),
    "two": AssistantMessage("m2", calls=(_call(1, "lookup", PLAIN), _call(2, "current_time", {"zone": "UTC"}))),
    "empty": AssistantMessage("m2", calls=(_call(1, "current_time", {}),)),
    "nested": AssistantMessage("m2", calls=(_call(1, "lookup", NESTED),)),
    "unicode": AssistantMessage("m2", calls=(_call(1, "lookup", UNICODE),)),
}
"""The last message of each conversation."""

_USER = UserMessage("m1", QUESTION)
_CALLED = (
    _USER,
    AssistantMessage("m2", calls=(_call(1, "lookup", SOUGHT),)),
    ToolMessage("m3", "call00001", "lookup", RESULT),
)


def _request(*messages: Message, tools: bool, **options: Any) -> ModelRequest:
    return ModelRequest(SYSTEM, History(messages), TOOLS if tools else (), GenerationOptions(**options))


ASKED: Mapping[str, ModelRequest] = {
    "bare": _request(_USER, tools=False),
    "none": _request(_USER, tools=True, tool_choice="none"),
    "result": _request(*_CALLED, tools=True),
    "final": _request(*_CALLED, tools=False, tool_choice="none"),
}
"""What an agent asks for: without tools, with such as may not be called, behind a call, and at the step limit."""

COLUMNS = (*CASES, "answer", *ASKED, "off")
"""Of the table; ``answer`` is the text without tools, and ``off`` a reply without reasoning."""


@frozen
class Cell:
    """How one case went."""

    state: str
    detail: str = ""


@frozen
class Row:
    """How all cases of a template went."""

    name: str
    format: str
    cells: Mapping[str, Cell]
    warnings: tuple[str, ...]
    off: str
    """What asks for no reasoning."""

    @property
    def calls(self) -> bool:
        """The template writes calls."""
        return self.cells["call"].state != "-"

    @property
    def whole(self) -> bool:
        """Whatever the template writes comes back."""
        return all(cell.state in ("ok", "-") for case, cell in self.cells.items() if case != "off")


# --------------------------------------------------------------------------------------------------------- one of them


def written(template: ChatTemplate, message: AssistantMessage, *, tools: bool = True) -> tuple[str, FormatSpec] | None:
    """What a template adds to a conversation for this message, and the format to read it with; None if it refuses."""
    found = template.derivation
    offered = tool_entries(TOOLS, Shield(Markers())) if tools else NO_TOOLS[found.no_tools or "none"]

    def applied(*messages: Message, prompt: bool = False) -> str:
        made: list[Entry] = entries(
            ModelRequest("", History(messages), (), GenerationOptions()), Shield(Markers()), found.shape
        )
        made = in_parts(made) if found.parts else made
        return template.apply(made, offered, add_generation_prompt=prompt)

    question = UserMessage("m1", "Where do zebras live?")
    try:
        before, prompted = applied(question), applied(question, prompt=True)
        after = applied(question, message)
    except TemplateError:
        return None
    prompt = prompt_of(before, prompted)
    _, reply = continuation(before, prompt, after, question.text)
    spec = template.format_spec()
    return reply, with_opened_in_reply(
        spec, after[: len(after) - len(reply)], before + prompt, reply, message.reasoning
    )


def read(spec: FormatSpec, chunks: Iterable[str]) -> Reply:
    parser = Parser(spec, TOOLS)
    outputs = [output for chunk in chunks for output in parser.feed(chunk)]
    return collect([*outputs, *parser.finish()])


def cuts(text: str, dice: random.Random) -> Iterator[list[str]]:
    """The text whole, in characters, and in pieces of the size of tokens, three times."""
    yield [text]
    yield list(text)
    for _ in range(3):
        places = sorted(dice.sample(range(len(text) + 1), k=min(len(text), max(1, len(text) // 5))))
        yield [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def judge(template: ChatTemplate, message: AssistantMessage, *, tools: bool = True) -> Cell:
    """Whether a message comes back."""
    found = written(template, message, tools=tools)
    if found is None:
        return Cell("-", "the template refuses the conversation")
    raw, spec = found
    if message.calls and not all(call.name in raw for call in message.calls):
        return Cell("-", "the template writes no call")
    if message.reasoning and REASONING not in raw:
        return Cell("-", "the template leaves reasoning out")
    if message.text and TEXT not in raw:
        return Cell("-", "the template leaves text beside calls out")
    end = min((raw.index(stop) for stop in spec.stops if stop in raw), default=len(raw))
    if message.text and message.calls and TEXT not in raw[:end]:
        return Cell("-", "the template puts text beside calls into a message of its own")
    if message.text and message.calls and spec.reasoning and raw.partition(TEXT)[0].endswith(spec.reasoning.start):
        return Cell("-", "the template writes text beside calls as reasoning")
    opened = spec.reasoning is not None and spec.reasoning.opened
    if message.text and not message.reasoning and opened and spec.reasoning.end not in raw[: raw.index(TEXT)]:
        return Cell("-", "the template writes text into the reasoning that its prompt opens, and does not end it")
    problem = ""
    for chunks in cuts(raw, random.Random(raw)):
        problem = problem or difference(message, read(spec, chunks))
    if not problem:
        return Cell("ok")
    return Cell("no" if admitted(template, message) else "WRONG", f"{problem}\n      in {raw!r}")


def difference(message: AssistantMessage, reply: Reply) -> str:
    """What did not come back; empty if all did."""
    expected = (message.text, message.reasoning, [(call.name, call.arguments) for call in message.calls])
    got = (
        reply.text.strip(),
        reply.reasoning.strip(),
        [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls],
    )
    if reply.malformed:
        return f"malformed: {reply.malformed[0].reason}"
    pairs = zip(("text", "reasoning", "calls"), expected, got, strict=True)
    return "; ".join(f"{what}: {have!r} for {wanted!r}" for what, wanted, have in pairs if wanted != have)


def admitted(template: ChatTemplate, message: AssistantMessage) -> bool:
    """Whether the template's own warnings say that such a message won't come back."""
    said = " ".join(template.warnings)
    typed = any(not isinstance(value, str) for call in message.calls for value in call.arguments.values())
    return (
        "answers that were not recognised" in said
        or (bool(message.text) and "behind the reasoning that its prompt opens" in said)
        or (bool(message.calls) and "how it writes calls was not recognised" in said)
        or (bool(message.reasoning) and "how it writes reasoning was not recognised" in said)
        or (typed and "numbers, lists and objects can't be read back" in said)
        or (bool(message.text and message.calls) and "writes text before a call so that" in said)
    )


def answer(template: ChatTemplate) -> Cell:
    """Whether a plain answer comes back where there are no tools, and whether the format is clean."""
    spec = template.format_spec()
    words = (QUESTION, SYSTEM, RESULT, TEXT, REASONING, *(tool.name for tool in TOOLS))
    foreign = [text for text in texts_of(spec) if holds_probes(text) or any(word in text for word in words)]
    if foreign:
        return Cell("WRONG", f"the format holds what was said: {foreign}")
    return judge(template, CASES["text"], tools=False)


def asked(template: ChatTemplate, request: ModelRequest) -> Cell:
    """Whether a prompt holds all that was said."""
    try:
        rendered = template.render(request)
    except TemplateError as error:
        told = "without tools" in " ".join(template.warnings)
        return Cell("no" if told else "WRONG", str(error))
    wanted = {"the system prompt": SYSTEM, "what the user says": QUESTION}
    if len(request.messages) > 1:
        wanted |= {"the calls of tools": SOUGHT["q"], "the results of tools": RESULT}
    lost = [what for what, text in wanted.items() if text not in rendered.text]
    if not lost:
        return Cell("ok")
    said = " ".join((*template.warnings, *rendered.warnings))
    silent = [what for what in lost if f"leaves {what} out" not in said]
    if silent == ["the calls of tools"] and "leaves calls out of the conversation" in said:
        silent = []
    return Cell("WRONG" if silent else "no", f"left out: {', '.join(lost)}\n      in {rendered.text!r}")


def without_reasoning(template: ChatTemplate) -> Cell:
    """Whether a reply without reasoning can be asked for, or it is told that it can't."""
    off, on = (template.render(evolve(ASKED["bare"], options=GenerationOptions(thinking=on))) for on in (False, True))
    reasoning = with_opened(template.format_spec(), off.text).reasoning
    if off.warnings:
        return Cell("no", "; ".join(off.warnings))
    if off.text == on.text and reasoning is None:
        return Cell("-", "the template knows of no reasoning")
    if off.text == on.text:  # where asking for it is in vain, there is none, which is what was asked for
        return Cell("ok" if on.warnings else "WRONG", off.text)
    return Cell("WRONG", off.text) if reasoning is not None and reasoning.opened else Cell("ok")


def try_out(name: str, source: str, *, apart: bool | None = None) -> Row:
    template = ChatTemplate(source, bos_token="<BOS>", eos_token="<EOS>", now=lambda: datetime(2026, 1, 1), apart=apart)
    cells = {case: judge(template, message) for case, message in CASES.items()}
    cells["answer"] = answer(template)
    cells |= {case: asked(template, request) for case, request in ASKED.items()}
    refused = cells["bare"].state != "ok"
    cells["off"] = (
        Cell("-", "the template refuses a question without tools") if refused else without_reasoning(template)
    )
    switch = template.derivation.switch
    off = "" if switch is None else f"{'little: ' if switch.weak else ''}`{switch}`"
    return Row(name, _format(template), cells, template.warnings, off or ("told" if cells["off"].state == "no" else ""))


def _format(template: ChatTemplate) -> str:
    """The name of the written format, or how the calls were found."""
    found = template.derivation
    if found.spec.name != "derived" or found.spec.calls is None:
        return found.spec.name if found.spec.calls else f"({found.spec.name})"
    return next((sentence.split("'")[1] for sentence in found.evidence if "the written format" in sentence), "derived")


# ------------------------------------------------------------------------------------------------------------ the table


def print_table(rows: list[Row], verbose: bool) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'template':{width}}  {'format':16}  " + " ".join(f"{case:>{max(6, len(case))}}" for case in COLUMNS))
    for row in rows:
        states = (f"{row.cells[case].state:>{max(6, len(case))}}" for case in COLUMNS)
        print(f"{row.name:{width}}  {row.format:16.16}  " + " ".join(states))
        if verbose:
            details = [f"{case}: {cell.detail}" for case, cell in row.cells.items() if cell.state in ("no", "WRONG")]
            for line in [*row.warnings, *details]:
                print(f"    {line}")
    print()
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for warning in row.warnings:
            if not row.whole or not row.calls:
                reasons.setdefault(warning, []).append(row.name)
    for warning, names in reasons.items():
        print(f"{warning}:\n    {', '.join(names)}")
    print()
    counts = Counter(cell.state for row in rows for cell in row.cells.values())
    calling = [row for row in rows if row.calls]
    print(
        f"{len(rows)} templates, {len(calling)} write calls. Everything comes back from "
        f"{sum(row.whole for row in calling)} of these and from {sum(row.whole for row in rows)} of all; one call from "
        f"{sum(row.cells['call'].state == 'ok' for row in calling)}."
    )
    print("Cells: " + ", ".join(f"{counts[state]} {state}" for state in ("ok", "no", "-", "WRONG")))


def markdown(rows: list[Row]) -> Iterator[str]:
    """The table of the page: for each template its format, and in which cases all comes back."""
    yield "| template | format | comes back | left out or refused by the template | lost, and told | `thinking=False` |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        back = [case for case in CASES if row.cells[case].state == "ok"]
        left_out = [case for case in CASES if row.cells[case].state == "-"]
        lost = [case for case in COLUMNS if case != "off" and row.cells[case].state in ("no", "WRONG")]
        whole = "all" if len(back) == len(CASES) else ", ".join(back)
        yield f"| {row.name} | {row.format} | {whole} | {', '.join(left_out)} | {', '.join(lost)} | {row.off} |"


def known_list(sources: Mapping[str, str]) -> Iterator[str]:
    """The lines of ``runtime/templates/known_templates.txt``: the templates that ship, and these."""
    yield "# Templates that run in the program itself; all others run in a process of their own. Made by:"
    yield "# python tests/conformance/templates.py --known > runtime/templates/known_templates.txt"
    shipped = find_template(None).source
    assert shipped is not None
    ours = {"cogstep's small model": shipped, "cogstep's for models without one": FALLBACK_TEMPLATE}
    lines = {fingerprint(source): name for name, source in reversed([*ours.items(), *sources.items()])}
    yield from (f"{digest} {name}" for digest, name in reversed(lines.items()))


def outdated(rows: list[Row], specs: Mapping[str, FormatSpec], sources: Mapping[str, str]) -> Iterator[str]:
    """What was written down of earlier runs and is no longer so."""
    if not LIST.is_file() or list(known_list(sources)) != LIST.read_text("ascii").splitlines():
        yield f"{LIST.name} is out of date: --known prints the present list"
    if "\n".join(markdown(rows)) not in PAGE.read_text("utf-8"):
        yield "the table in docs/reference/formats.md is out of date: --markdown prints the present one"
    stated = PROJECTS["llama_cpp"]
    for name in sorted({case["of"] for case in stated["cases"]} & set(specs)):
        used = {_bare(format_of(stated, case)) for case in stated["cases"] if case["of"] == name}
        if used != {_bare(specs[name])}:
            yield f"the cases of {name} in tests/cognition/parsing/cases have another format than is derived now"


def _bare(spec: FormatSpec) -> FormatSpec:
    """The format without what hangs on the prompt and on the tokenizer: reasoning that is begun, stops."""
    reasoning = None if spec.reasoning is None else evolve(spec.reasoning, opened=False)
    return evolve(spec, name="", reasoning=reasoning, stops=())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where what is downloaded is kept")
    parser.add_argument("--only", default="", metavar="TEXT", help="templates with this text in their name")
    parser.add_argument("--short", action="store_true", help="ten templates of all kinds")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/reference/formats.md instead")
    parser.add_argument("--known", action="store_true", help="print the list of known templates instead")
    parser.add_argument("--apart", action="store_true", help="each in a process of its own, as unknown ones are")
    parser.add_argument("-v", "--verbose", action="store_true", help="show warnings and what went wrong")
    options = parser.parse_args()
    rows: list[Row] = []
    specs: dict[str, FormatSpec] = {}
    sources: dict[str, str] = {}
    try:
        for name, source in templates(options.cache, "trl/" if options.short else ""):
            if options.only.lower() in name.lower() and (not options.short or name in SHORT):
                if sys.stderr.isatty():
                    print(f"\r{len(rows) + 1:3d} {name:70.70}", end="", file=sys.stderr, flush=True)
                rows.append(try_out(name, source, apart=True if options.apart else None))
                specs[name] = ChatTemplate(source).format_spec()
                sources[name] = source
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (SourceError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        print(f"the templates can't be had: {error}", file=sys.stderr)
        return 2
    if sys.stderr.isatty():
        print("\r" + " " * 75 + "\r", end="", file=sys.stderr)
    if not rows:
        print("no such template", file=sys.stderr)
        return 2
    rows.sort(key=lambda row: ("/" in row.name, row.name.lower()))
    if options.markdown:
        print("\n".join(markdown(rows)))
    elif options.known:
        wrong_ones = {row.name for row in rows if any(cell.state == "WRONG" for cell in row.cells.values())}
        print("\n".join(known_list({name: source for name, source in sources.items() if name not in wrong_ones})))
    else:
        print_table(rows, options.verbose)
    stale = [] if options.only or options.short or options.known else list(outdated(rows, specs, sources))
    wrong = [(row.name, case) for row in rows for case, cell in row.cells.items() if cell.state == "WRONG"]
    for sentence in [*stale, *(f"WRONG: {name}, {case}" for name, case in wrong)]:
        print(sentence, file=sys.stderr)
    return int(bool(stale or wrong))


if __name__ == "__main__":
    sys.exit(main())
