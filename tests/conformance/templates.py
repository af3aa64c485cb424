"""What the chat templates of real model families write, parsed with the format that is found for them.

    python tests/conformance/templates.py                 every template; ``make conformance`` is the same
    python tests/conformance/templates.py --only qwen -v  those with "qwen" in their name, with what went wrong

The templates are those that llama.cpp carries for its own tests, in the source distribution of llama-cpp-python. They
are downloaded once into a folder that git ignores, and never committed: their licences are their publishers'.

Each renders conversations whose last message is an assistant's: with reasoning, text, one call, two calls, values of
all kinds. What it wrote for that message is parsed whole, character by character and cut at random, and has to come
back. A cell of the table says ``ok``; ``-`` where the template itself leaves that out or refuses it; ``no`` where the
message does not come back and the template's warnings say that it won't; ``WRONG`` where nothing says so.
Then it looks at what was written down of an earlier run: the table in ``docs/formats.md``, and the formats that the
restated cases of llama.cpp's tests are read with.
Exit status: 0, or 1 if any cell is WRONG or something written down is out of date, 2 if the templates can't be had, 130
interrupted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `python tests/conformance/templates.py`

from cognition import AssistantMessage, Message, ToolCall, ToolSpec, UserMessage
from cognition.parsing import FormatSpec, Parser, Reply, collect
from runtime.conversation import Entry, Shape, entries_of, tool_entries
from runtime.errors import TemplateError
from runtime.probing import continuation, opened_for, prompt_of
from runtime.protection import Shield
from runtime.templates import ChatTemplate
from tests.cognition.parsing.stated_cases import PROJECTS, format_of

VERSION = "0.3.36"
"""Of llama-cpp-python. Pinned, so that two runs speak of the same templates."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
CACHE = Path(__file__).resolve().parent / ".cache"
FOLDER = "vendor/llama.cpp/models/templates/"

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

    @property
    def calls(self) -> bool:
        """The template writes calls."""
        return self.cells["call"].state != "-"

    @property
    def whole(self) -> bool:
        """Whatever the template writes comes back."""
        return all(cell.state in ("ok", "-") for cell in self.cells.values())


# ----------------------------------------------------------------------------------------------------- the templates


def archive(folder: Path) -> Path:
    """The source distribution; downloaded if it is not there."""
    found = sorted(folder.glob(f"llama_cpp_python-{VERSION}.tar.gz"))
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Downloading the sources of llama-cpp-python {VERSION} (77 MB, once) ...", file=sys.stderr, flush=True)
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--no-binary", "llama-cpp-python", "--dest", str(folder), f"llama-cpp-python=={VERSION}",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return next(folder.glob(f"llama_cpp_python-{VERSION}.tar.gz"))


def templates(path: Path) -> Iterator[tuple[str, str]]:
    """Name and source of every chat template in the archive."""
    with tarfile.open(path) as tar:
        for member in tar:
            _, found, name = member.name.partition(FOLDER)
            if found and name.endswith(".jinja"):
                content = tar.extractfile(member)
                assert content is not None
                yield name.removesuffix(".jinja"), content.read().decode()


# --------------------------------------------------------------------------------------------------------- one of them


def written(template: ChatTemplate, message: AssistantMessage) -> tuple[str, FormatSpec] | None:
    """What a template adds to a conversation for this message, and the format to read it with; None if it refuses."""
    found = template.derivation
    shape = Shape(text_arguments=found.text_arguments, reasoning_key=found.reasoning_key)
    tools = tool_entries(TOOLS, Shield(frozenset()))

    def applied(*messages: Message, prompt: bool = False) -> str:
        made: list[Entry] = entries_of(messages, Shield(frozenset()), shape)
        return template.apply(made, tools, add_generation_prompt=prompt)

    question = UserMessage("m1", "Where do zebras live?")
    try:
        before, prompted = applied(question), applied(question, prompt=True)
        after = applied(question, message)
    except TemplateError:
        return None
    prompt = prompt_of(before, prompted)
    _, reply = continuation(before, prompt, after)
    spec = template.format_spec()
    return reply, opened_for(spec, after[: len(after) - len(reply)], before + prompt, reply, message.reasoning)


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


def judge(template: ChatTemplate, message: AssistantMessage) -> Cell:
    """Whether a message comes back."""
    found = written(template, message)
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
    return (
        "answers that were not recognised" in said
        or (bool(message.text) and "behind the reasoning that its prompt opens" in said)
        or (bool(message.calls) and "how it writes calls was not recognised" in said)
        or (bool(message.reasoning) and "how it writes reasoning was not recognised" in said)
    )


def try_out(name: str, source: str) -> Row:
    template = ChatTemplate(source, bos_token="<BOS>", eos_token="<EOS>", now=lambda: datetime(2026, 1, 1))
    cells = {case: judge(template, message) for case, message in CASES.items()}
    return Row(name, _format(template), cells, template.warnings)


def _format(template: ChatTemplate) -> str:
    """The name of the written format, or how the calls were found."""
    found = template.derivation
    if found.spec.name != "derived" or found.spec.calls is None:
        return found.spec.name if found.spec.calls else f"({found.spec.name})"
    return next((sentence.split("'")[1] for sentence in found.evidence if "the written format" in sentence), "derived")


# ------------------------------------------------------------------------------------------------------------ the table


def print_table(rows: list[Row], verbose: bool) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'template':{width}}  {'format':18}  " + "  ".join(f"{case:>10}" for case in CASES))
    for row in rows:
        print(f"{row.name:{width}}  {row.format:18.18}  " + "  ".join(f"{row.cells[c].state:>10}" for c in CASES))
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
    yield "| template | format | comes back | left out or refused by the template | lost |"
    yield "|---|---|---|---|---|"
    for row in rows:
        by_state = {
            state: ", ".join(case for case, cell in row.cells.items() if cell.state in states)
            for state, states in (("ok", ("ok",)), ("-", ("-",)), ("no", ("no", "WRONG")))
        }
        whole = "all" if len(row.cells) == sum(cell.state == "ok" for cell in row.cells.values()) else by_state["ok"]
        yield f"| {row.name} | {row.format} | {whole} | {by_state['-']} | {by_state['no']} |"


def outdated(rows: list[Row], specs: Mapping[str, FormatSpec]) -> Iterator[str]:
    """What was written down of earlier runs and is no longer so."""
    if "\n".join(markdown(rows)) not in PAGE.read_text("utf-8"):
        yield "the table in docs/formats.md is out of date: --markdown prints the present one"
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
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the downloaded sources are kept")
    parser.add_argument("--only", default="", metavar="TEXT", help="templates with this text in their name")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/formats.md instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="show warnings and what went wrong")
    options = parser.parse_args()
    rows: list[Row] = []
    specs: dict[str, FormatSpec] = {}
    try:
        for name, source in templates(archive(options.cache)):
            if options.only.lower() in name.lower():
                print(f"\r{len(rows) + 1:3d} {name:70.70}", end="", file=sys.stderr, flush=True)
                rows.append(try_out(name, source))
                specs[name] = ChatTemplate(source).format_spec()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (subprocess.CalledProcessError, OSError, tarfile.TarError, StopIteration) as error:
        print(f"the templates can't be had: {error}", file=sys.stderr)
        return 2
    print("\r" + " " * 75 + "\r", end="", file=sys.stderr)
    if not rows:
        print("no such template", file=sys.stderr)
        return 2
    rows.sort(key=lambda row: row.name.lower())
    if options.markdown:
        print("\n".join(markdown(rows)))
    else:
        print_table(rows, options.verbose)
    stale = [] if options.only else list(outdated(rows, specs))
    for sentence in stale:
        print(sentence, file=sys.stderr)
    return int(bool(stale) or any(cell.state == "WRONG" for row in rows for cell in row.cells.values()))


if __name__ == "__main__":
    sys.exit(main())
