"""The names of the engine's own tools: ours, or names that models have been trained on.

A call keeps the model's text. Its name selects the schema, and the arguments are then converted to those of our tool.
Arguments that can't be converted are an error for the model, in the terms of the schema that it used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any

from attrs import evolve, frozen

from cognition.base.errors import ConfigError
from cognition.steps.engine_tools import (
    ASK_USER,
    BY_FEATURE,
    ENTER_PLAN_MODE,
    SPAWN_WORKER,
    SUBMIT_PLAN,
    TEXT,
    UPDATE_TASKS,
    list_of,
    object_schema,
    one_of,
    read_text,
)
from cognition.values.features import Feature, TaskStatus, Vocabulary
from cognition.values.tools import ToolSpec

STATUSES: Mapping[str, TaskStatus] = {"pending": "open", "in_progress": "in_progress", "completed": "done"}

WORKER_TYPE = "general-purpose"
"""The only valid ``subagent_type``."""

ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")


@frozen
class _Other:
    """An engine tool under another name."""

    spec: ToolSpec
    stands_for: ToolSpec
    translated: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Converts its arguments to ours; raises ConfigError like ``read_questions``."""


def engine_tools(features: tuple[Feature, ...], names: Vocabulary = "cogstep") -> tuple[ToolSpec, ...]:
    """Return the tools that these features add, in the features' order."""
    own = tuple(tool for feature in features for tool in BY_FEATURE[feature])
    if names == "cogstep":
        return own
    return tuple(_OTHERS[tool.name].spec if tool.name in _OTHERS else tool for tool in own)


def own_name(name: str, names: Vocabulary) -> str:
    """Return our name of an engine tool offered under ``name``."""
    other = _BY_NAME.get(name) if names == "claude" else None
    return name if other is None else other.stands_for.name


def own_arguments(name: str, arguments: Mapping[str, Any], names: Vocabulary) -> Mapping[str, Any]:
    """Convert the arguments of an engine tool's call to those of our tool.

    Raises:
        ConfigError: with a message for the model.
    """
    other = _BY_NAME.get(name) if names == "claude" else None
    return arguments if other is None else other.translated(arguments)


def worker_name_argument(name: str, names: Vocabulary) -> str:
    """Return the argument that contains the worker's name in a call that starts a worker."""
    return "description" if names == "claude" and name == _OTHERS[SPAWN_WORKER.name].spec.name else "name"


def is_worker_tool(tool: ToolSpec) -> bool:
    """Return whether this tool starts a worker, under either name; a tool of the program never does."""
    return tool is SPAWN_WORKER or tool is _OTHERS[SPAWN_WORKER.name].spec


def _questions(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"questions": [_question(entry) for entry in list_of(arguments, "questions", dict)]}


def _question(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    options = list_of(entry, "options", dict)
    return {
        "question": read_text(entry, "question"),
        "options": [read_text(option, "label") for option in options],
        "multiple": entry.get("multiSelect") is True,
        "described": {
            "header": _text_argument(entry, "header"),
            "options": [_text_argument(option, "description") for option in options],
        },
    }


def _text_argument(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{key!r} must be a text")
    return value.strip()


def _tasks(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "tasks": [
            {"title": read_text(entry, "content"), "status": STATUSES[one_of(entry, "status", tuple(STATUSES))]}
            for entry in list_of(arguments, "todos", dict)
        ]
    }


def _nothing(_arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def _plan(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"steps": steps_of(read_text(arguments, "plan"))}


def steps_of(plan: str) -> list[str]:
    """Split a plan's text into steps: the unindented items of its lists, each with the text that follows it.

    Text before the first item belongs to the first step, so that the steps contain the whole plan. Without a list the
    whole text is one step.
    """
    steps: list[str] = []
    listed, fenced = False, False
    for line in dedent(plan).strip().split("\n"):
        item = None if fenced else ITEM.match(line)
        fenced ^= line.lstrip().startswith("```")
        text = line if item is None else line[item.end() :]
        if not steps or (item is not None and listed):
            steps.append(text)
        else:
            steps[-1] += f"\n{text}"
        listed |= item is not None
    return [step.rstrip() for step in steps]


def _worker(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = arguments.get("subagent_type")
    if kind not in (None, "", WORKER_TYPE):
        raise ConfigError(f"there is no 'subagent_type' {kind!r}; leave it out, or say {WORKER_TYPE!r}")
    return {"name": read_text(arguments, "description"), "objective": read_text(arguments, "prompt")}


_OPTION = object_schema({"label": TEXT}, description=TEXT)
_QUESTION = object_schema(
    {"question": TEXT, "options": {"type": "array", "items": _OPTION}}, header=TEXT, multiSelect={"type": "boolean"}
)
_TODO = object_schema({"content": TEXT, "status": {"type": "string", "enum": list(STATUSES)}}, activeForm=TEXT)


def _other(
    name: str,
    own: ToolSpec,
    translated: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    parameters: dict[str, Any],
    description: str = "",
) -> _Other:
    spec = evolve(own, name=name, parameters=parameters, description=description or own.description)
    return _Other(spec, own, translated)


_BY_NAME: Mapping[str, _Other] = {
    other.spec.name: other
    for other in (
        _other(
            "AskUserQuestion",
            ASK_USER,
            _questions,
            object_schema({"questions": {"type": "array", "items": _QUESTION}}),
        ),
        _other("TodoWrite", UPDATE_TASKS, _tasks, object_schema({"todos": {"type": "array", "items": _TODO}})),
        _other("EnterPlanMode", ENTER_PLAN_MODE, _nothing, object_schema({})),
        _other(
            "ExitPlanMode",
            SUBMIT_PLAN,
            _plan,
            object_schema({"plan": TEXT}),
            "Propose a plan to the user, as a list with one item a step.",
        ),
        _other(
            "Task",
            SPAWN_WORKER,
            _worker,
            object_schema(
                {"description": TEXT, "prompt": TEXT}, subagent_type={"type": "string", "enum": [WORKER_TYPE]}
            ),
            "Give a part of the work to a worker, who knows only the prompt; the description is its name.",
        ),
    )
}
_OTHERS: Mapping[str, _Other] = {other.stands_for.name: other for other in _BY_NAME.values()}
"""The same by our name. Tools without a name that models know keep ours."""

WORKER_TOOLS = (SPAWN_WORKER.name, _OTHERS[SPAWN_WORKER.name].spec.name)
"""The names of the tool that starts workers."""
