"""The tools of the model's world, one `Family` each: how it is declared, what it is asked for, what it returns and how
the answer says so.

The five tools of the command line come first, in its order; `canonical` declares a tool to the letter as the package
does, `varied` as other programs might.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.grammar import expand
from training.values import (
    EXTENSIONS,
    SKIES,
    Source,
    cap,
    city,
    clock,
    code,
    command,
    decimal,
    document,
    evaluate,
    expression,
    fact,
    folder,
    integer,
    line,
    made_up,
    number,
    path,
    pattern,
    phrase,
    search_text,
    shortened,
    stem,
    time_stamp,
    word,
)


@dataclass(frozen=True)
class Param:
    name: str
    type: str
    required: bool = True


@dataclass(frozen=True)
class Tool:
    """A tool as one conversation offers it; `family` is empty for a tool from outside the model's world."""

    family: str
    name: str
    description: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Family:
    """One kind of tool. Names and parameter names: the package's own first, then others' for the same thing."""

    names: str
    purpose: str  # the thought: "I should read a file"
    ability: str  # the refusal: "I have no tool to read files"
    description: str
    variants: tuple[str, ...]
    params: tuple[tuple[str, str, bool], ...]
    make: Callable[[Source], list[str]]  # values for one request
    extras: tuple[str, ...] = ()  # optional parameters that no request mentions: "name:type"


def _note_or_phrase(s: Source) -> str:
    return fact(s) if s.chance(0.5) else phrase(s, 1, 5)


def _query(s: Source) -> list[str]:
    return [phrase(s, 1, 2) if s.chance(0.25) else word(s) + (" " + word(s) if s.chance(0.3) else "")]


def operands(s: Source, type_: str, operation: str) -> list[str]:
    """Two numbers as text, fit for a parameter type and an operation."""
    a, b = (number(s) if type_ == "number" and s.chance(0.6) else str(integer(s)) for _ in range(2))
    return [a, "4" if operation == "divide" and float(b) == 0 else b]


OPERATIONS: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "add": ("+", lambda a, b: a + b),
    "subtract": ("-", lambda a, b: a - b),
    "multiply": ("*", lambda a, b: a * b),
    "divide": ("/", lambda a, b: a / b),
}
ARITHMETIC = ("calculate", *OPERATIONS)
CLI = ("calculate", "current_time", "Read", "Glob", "Grep")
LATER = ("Write", "Bash", "remember", "recall")
PRODUCT = (*CLI, *LATER, "get_weather")


def _operation(name: str, things: str) -> Family:
    sign = OPERATIONS[name][0]
    return Family(
        names=name,
        purpose=f"{name} two numbers",
        ability=f"{name} numbers",
        description=f"{cap(name)} two {things}.",
        variants=(
            f"[{cap(name)}|{cap(name)}s] two [numbers|integers|values]",
            f"[Return|Returns|Compute] a {sign} b",
            f"{cap(name)} a and b",
        ),
        params=(("a x first", "num", True), ("b y second", "num", True)),
        make=lambda s: operands(s, "integer", name),
    )


FAMILIES: dict[str, Family] = {
    "calculate": Family(
        "calculate calculator calc",
        "calculate",
        "calculate",
        "Evaluate an arithmetic expression.",
        (
            "Evaluate [a math|an arithmetic] expression",
            "[Calculate|Compute] [an expression|a math expression|the value of an expression]",
            "Do [math|arithmetic|calculations]",
            "A calculator",
        ),
        (("expression expr formula", "string", True),),
        lambda s: [expression(s)],
    ),
    "current_time": Family(
        "current_time get_time now",
        "get the time",
        "get the time",
        "Get the current date and time.",
        (
            "[Get|Return|Tell|Show] the [current|] [time|date and time]",
            "The current [time|date and time]",
            "[Returns|Gives] the time [now|]",
        ),
        (),
        lambda s: [],
    ),
    "Read": Family(
        "Read read_file open_file",
        "read a file",
        "read files",
        "Read a text file.",
        (
            "[Read|Open|Load] [a file|the contents of a file|a text file]",
            "Return the [text|contents] of a file",
            "[Reads|Opens] a file [and returns its text|]",
        ),
        (("path file_path filename", "string", True),),
        lambda s: [path(s)],
        ("offset:integer", "limit:integer"),
    ),
    "Glob": Family(
        "Glob find_files list_files",
        "find files",
        "find files",
        "Find files by a glob pattern.",
        (
            "[Find|List] files [matching|by] a [pattern|glob pattern]",
            "[Find|List] files",
            "[Match|Look up] file names [by pattern|]",
            "[Lists|Finds] [paths|files] that match a pattern",
        ),
        (("pattern glob", "string", True),),
        lambda s: [pattern(s), folder(s)],
        ("root:string",),
    ),
    "Grep": Family(
        "Grep search_files grep",
        "search text",
        "search text",
        "Search files for a pattern.",
        (
            "Search [files|file contents|text in files] [for a pattern|]",
            "Find lines [matching|that match] a pattern",
            "[Grep|Search] [the|] files",
            "[Searches|Looks for] text in files",
        ),
        (("pattern regex text", "string", True), ("path file folder", "string", False)),
        lambda s: [search_text(s), s.choice([path, path, folder])(s)],
        ("limit:integer",),
    ),
    "Write": Family(
        "Write write_file save_file",
        "write a file",
        "write files",
        "Write text to a file.",
        (
            "[Write|Save|Store] [text|content] [to|in] a file",
            "[Create|Write] a file [with content|with text|]",
            "[Writes|Creates] a file",
        ),
        (("path file_path filename", "string", True), ("content text data", "string", True)),
        lambda s: [path(s), _note_or_phrase(s)],
        ("append:boolean",),
    ),
    "Bash": Family(
        "Bash run_command shell",
        "run a command",
        "run commands",
        "Run a shell command.",
        (
            "[Run|Execute] a [shell|bash|] command",
            "Run a command in [the terminal|a shell|bash]",
            "[Runs|Executes] [commands|a command] [in the shell|]",
        ),
        (("command cmd", "string", True),),
        lambda s: [command(s)],
        ("timeout:integer",),
    ),
    "remember": Family(
        "remember save_note add_note",
        "save a note",
        "save notes",
        "Save a note for later.",
        (
            "[Save|Store|Keep] a [note|fact|memo] [in memory|for later|]",
            "Remember [a fact|a note|something] [for later|]",
            "[Adds|Saves] a note to memory",
        ),
        (("text note fact", "string", True),),
        lambda s: [fact(s)],
        ("tags:string",),
    ),
    "recall": Family(
        "recall search_notes find_note",
        "find a note",
        "search notes",
        "Search the saved notes.",
        (
            "[Search|Look up|Find] [notes|saved notes|a note|memory]",
            "Recall [a fact|a note|what was saved]",
            "[Searches|Looks up] the [saved notes|memory]",
        ),
        (("query topic keyword", "string", True),),
        _query,
        ("limit:integer",),
    ),
    "get_weather": Family(
        "get_weather weather forecast",
        "get the weather",
        "check the weather",
        "Get the weather in a city.",
        (
            "[Get|Return|Look up] the [weather|current weather|forecast] [for|in|of] a [city|place]",
            "[Weather|Current weather] [in|for] a city",
            "[Returns|Gives] the weather",
        ),
        (("city location place", "string", True),),
        lambda s: [city(s)],
        ("unit:string",),
    ),
    "add": _operation("add", "whole numbers"),
    "subtract": _operation("subtract", "whole numbers"),
    "multiply": _operation("multiply", "whole numbers"),
    "divide": _operation("divide", "numbers"),
}

NOTES = (
    "Returns plain text",
    "Returns JSON",
    "Use it when the user asks for it",
    "Paths are relative to the working folder",
    "Fails if nothing is found",
    "Read only",
    "Asks for approval first",
    "Returns at most 100 lines",
    "Not for other tasks",
)


def canonical(key: str, number_type: str = "integer") -> Tool:
    """A tool exactly as the package declares it."""
    family = FAMILIES[key]
    params = (Param(p.split()[0], number_type if t == "num" else t, need) for p, t, need in family.params)
    return Tool(key, family.names.split()[0], family.description, tuple(params))


def varied(s: Source, key: str, number_type: str, alias: float = 0.0) -> Tool:
    """A tool as another program may declare it; `alias` is the share of those that carry other names."""
    family = FAMILIES[key]
    nth = s.choice([0, 1, 2]) if s.chance(alias) else 0
    description = cap(expand(s, s.choice(family.variants))) + (". " + s.choice(NOTES) if s.chance(0.15) else "")
    params = []
    for names, type_, need in family.params:
        options = names.split()
        params.append(Param(options[min(nth, len(options) - 1)], number_type if type_ == "num" else type_, need))
    if s.chance(0.1):
        for extra in family.extras:
            title, type_ = extra.split(":")
            params.append(Param(title, type_, required=False))
    own_names = family.names.split()
    return Tool(key, s.choice(own_names) if s.chance(alias) else own_names[0], description, tuple(params))


# ------------------------------------------------------------------------------------------- what a tool returns


def result(s: Source, key: str, values: list[str]) -> str:
    """What the tool returns for these values, before `present`; '' means that nothing was found."""
    if key == "calculate":
        return evaluate(values[0])
    if key in OPERATIONS:
        return decimal(OPERATIONS[key][1](*(float(v) if "." in v else int(v) for v in values)))
    return RESULTS[key](s, values)


def _file_text(s: Source, longest: int = 6) -> str:
    rows = s.choice([1, 1, 1, 1, 1, 1, 2, 2, 3, 4])
    return "\n".join(line(s, longest if rows == 1 else 4) for _ in range(rows))


def _read(s: Source, values: list[str]) -> str:
    x = s.random()
    return "" if x < 0.02 else document(s) if x < 0.14 else _file_text(s)


def _glob(s: Source, values: list[str]) -> str:
    before = values[0].split("*")[0]
    at = before[: before.rfind("/") + 1]
    end = values[0].rsplit(".", 1)[1] if "." in values[0] else None
    count = s.choice([0, 1, 1, 2, 2, 3, 3, 4, 5])
    return "\n".join(at + stem(s) + "." + (end or s.choice(EXTENSIONS)) for _ in range(count))


def _grep(s: Source, values: list[str]) -> str:
    file = values[1] if len(values) > 1 and "." in values[1] else path(s)
    count = s.choice([0, 1, 1, 1, 1, 2, 2, 3])
    rows = (_row_with(s, values[0]) for _ in range(count))
    return "\n".join(f"{file}:{s.randint(1, 200)}: {row}" for row in rows)


def _row_with(s: Source, text: str) -> str:
    x = s.random()
    if x < 0.2:
        return code(s, text)
    row = f"{phrase(s, 1, 2)} {text}" + (f" {phrase(s, 1, 3)}" if s.chance(0.3) else "")
    return row if x < 0.7 else cap(row) + s.choice([".", ".", "", ","])


def _weather(s: Source, values: list[str]) -> str:
    sky = made_up(s) if s.unseen_values and s.chance(0.5) else s.choice(SKIES)
    return f"{s.randint(-20, 40)} C, {sky}"


RESULTS: dict[str, Callable[[Source, list[str]], str]] = {
    "current_time": lambda s, v: time_stamp(s) if s.chance(0.85) else clock(s),
    "Read": _read,
    "Bash": lambda s, v: "" if s.chance(0.12) else _file_text(s, 5),
    "Glob": _glob,
    "Grep": _grep,
    "recall": lambda s, v: "" if s.chance(0.12) else fact(s),
    "get_weather": _weather,
    "remember": lambda s, v: s.choice(["ok", "saved", "done", "stored", "noted"]),
    "Write": lambda s, v: s.choice(["ok", "written", "saved", "done", f"wrote {s.randint(1, 400)} bytes"]),
}

ENDS_IN_NEWLINE = ("Read", "Bash")  # their text mostly does, and the tool hands it on as it is

NOTHING_FOUND = {
    "Glob": ("No files match.", "no files found", "no matches"),
    "Grep": ("No lines match.", "no matches", "none"),
    "recall": ("No notes found.", "no notes found", "nothing found"),
    "Bash": ("", "(no output)"),
    "Read": ("",),
}


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def present(s: Source, key: str, text: str, values: list[str], *, plain: bool) -> str:
    """The result as the model sees it: as the command line's tools print it, or now and then as JSON."""
    if not text:
        options = NOTHING_FOUND[key]
        return options[0] if plain or s.chance(0.6) else s.choice(options)
    rows = text.split("\n")
    if plain or s.chance(0.8):
        return text + "\n" if key in ENDS_IN_NEWLINE and s.chance(0.6) else text
    if key in ("Glob", "Grep"):
        return dumps(rows) if s.chance(0.5) else dumps({s.choice(["files", "matches", "result"]): rows})
    if len(rows) > 1:
        return text
    if key == "get_weather":
        degrees, sky = text.split(" C, ")
        return dumps({s.choice(["temperature", "temp"]): int(degrees), s.choice(["sky", "weather"]): sky})
    value: Any = text
    if key in ARITHMETIC and re.fullmatch(r"-?\d+(\.\d+)?", text) and s.chance(0.5) and str(json.loads(text)) == text:
        value = json.loads(text)
    named = {s.choice(["result", "output", "text", "value", "content"]): value}
    status: dict[str, Any] = s.choice([{}, {}, {}, {"ok": True}, {"status": "ok"}])
    return dumps(status | named)


# ------------------------------------------------------------------------------------------- what the answer says


def say(key: str, values: list[str], text: str) -> str:
    """The answer to one call: a short sentence that carries the result."""
    return ended(_sentence(key, values, text))


def ended(sentence: str) -> str:
    """The sentence with a full stop, unless what it ends with has one."""
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."


def _sentence(key: str, values: list[str], text: str) -> str:
    rows = text.split("\n")
    match key:
        case "calculate":
            return f"{values[0]} is {shortened(text)}"
        case "add" | "subtract" | "multiply" | "divide":
            return f"{values[0]} {OPERATIONS[key][0]} {values[1]} is {shortened(text)}"
        case "current_time":
            return f"It is {text}"
        case "get_weather":
            return f"The weather in {values[0]}: {text}"
        case "Write":
            return f"I wrote {values[0]}"
        case "remember":
            return f"I will remember: {values[0]}"
        case "recall":
            return f"You told me: {text}" if text else f"I have no notes about {values[0]}"
        case "Glob" if not text:
            return f"No files match {values[0]}"
        case "Grep" if not text:
            return f"No lines match {values[0]}"
        case "Glob":
            return "I found: " + ", ".join(rows) if len(rows) < 4 else f"I found many files, starting with: {rows[0]}"
        case "Grep":
            return f"I found: {text}" if len(rows) == 1 else f"I found many lines, starting with: {rows[0]}"
        case "Read" if not text:
            return f"{values[0]} is empty"
        case "Read":
            return f"{values[0]} says: {text}" if len(rows) == 1 else f"{values[0]} starts with: {rows[0]}"
        case "Bash" if not text:
            return "The command gave no output"
        case "Bash":
            return f"The output is: {text}" if len(rows) == 1 else f"The output starts with: {rows[0]}"
        case _:
            pass
    raise ValueError(f"no answer is written for the tool {key!r}")
