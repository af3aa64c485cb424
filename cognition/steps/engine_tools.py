"""The tools that the engine itself executes: their specifications, and the readers of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from cognition.base.errors import ConfigError
from cognition.values.features import QUESTIONS, Feature, Plan, Question, Task, TaskStatus, WorkerSpec
from cognition.values.tools import ToolSpec


def object_schema(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


Word = TypeVar("Word", bound=str)

TEXT = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
STATUSES: tuple[TaskStatus, ...] = ("open", "in_progress", "done")

ASK_USER = ToolSpec(
    "ask_user",
    "Ask the user 1 to 4 questions with 2 to 4 options each.",
    object_schema(
        {
            "questions": {
                "type": "array",
                "items": object_schema({"question": TEXT, "options": TEXTS}, multiple={"type": "boolean"}),
            }
        }
    ),
    read_only=True,
)
UPDATE_TASKS = ToolSpec(
    "update_tasks",
    "Replace the list of tasks; at most one is in progress.",
    object_schema(
        {
            "tasks": {
                "type": "array",
                "items": object_schema({"title": TEXT, "status": {"type": "string", "enum": list(STATUSES)}}),
            }
        }
    ),
    read_only=True,
)
ENTER_PLAN_MODE = ToolSpec(
    "enter_plan_mode", "Look around with read-only tools before proposing a plan.", object_schema({}), read_only=True
)
SUBMIT_PLAN = ToolSpec(
    "submit_plan", "Propose a plan to the user, one entry a step.", object_schema({"steps": TEXTS}), read_only=True
)
FINISH_STEP = ToolSpec(
    "finish_step", "Say that the current step of the plan is done.", object_schema({}), read_only=True
)
REMEMBER = ToolSpec("remember", "Save a note for later.", object_schema({"text": TEXT}))
RECALL = ToolSpec("recall", "Search the saved notes.", object_schema({"query": TEXT}), read_only=True)
SPAWN_WORKER = ToolSpec(
    "spawn_worker",
    "Give a part of the work to a worker; `after` names workers whose results it needs.",
    object_schema({"name": TEXT, "objective": TEXT}, tools=TEXTS, after=TEXTS),
)

BY_FEATURE: Mapping[Feature, tuple[ToolSpec, ...]] = {
    "questions": (ASK_USER,),
    "tasks": (UPDATE_TASKS,),
    "plan": (ENTER_PLAN_MODE, SUBMIT_PLAN, FINISH_STEP),
    "memory": (REMEMBER, RECALL),
    "workers": (SPAWN_WORKER,),
}
"""The tools that each feature adds. Their names are then reserved. Read-only tools here change nothing outside the
conversation: they may be called while planning, and never ask for approval.
"""


def read_questions(arguments: Mapping[str, Any]) -> tuple[Question, ...]:
    """Return the questions of an ``ask_user`` call.

    Raises:
        ConfigError: with a message for the model.
    """
    entries = list_of(arguments, "questions", dict)
    low, high = QUESTIONS
    if not low <= len(entries) <= high:
        raise ConfigError(f"ask {low} to {high} questions, not {len(entries)}")
    return tuple(
        Question(
            read_text(entry, "question"),
            _texts(entry, "options"),
            entry.get("multiple") is True,
            *_read_descriptions(entry),
        )
        for entry in entries
    )


def _read_descriptions(entry: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the heading and the options' descriptions. Only calls under the names that models know have them."""
    described = entry.get("described")
    if not isinstance(described, dict):
        return "", ()
    descriptions = _texts(described, "options", optional=True)
    return str(described.get("header", "")), descriptions if any(descriptions) else ()


def read_tasks(arguments: Mapping[str, Any]) -> tuple[Task, ...]:
    """Return the tasks of an ``update_tasks`` call; raises ConfigError like ``read_questions``."""
    tasks = tuple(
        Task(read_text(entry, "title"), one_of(entry, "status", STATUSES))
        for entry in list_of(arguments, "tasks", dict)
    )
    if sum(task.status == "in_progress" for task in tasks) > 1:
        raise ConfigError("at most one task can be in progress")
    return tasks


def read_plan(arguments: Mapping[str, Any]) -> Plan:
    """Return the plan of a ``submit_plan`` call; raises ConfigError like ``read_questions``."""
    steps = _texts(arguments, "steps")
    if not steps:
        raise ConfigError("a plan needs at least one step")
    return Plan(steps)


def read_worker(arguments: Mapping[str, Any]) -> WorkerSpec:
    """Return the worker of a ``spawn_worker`` call; raises ConfigError like ``read_questions``."""
    name, objective = read_text(arguments, "name"), read_text(arguments, "objective")
    return WorkerSpec(
        name, objective, _texts(arguments, "tools", optional=True), _texts(arguments, "after", optional=True)
    )


def read_text(arguments: Mapping[str, Any], key: str) -> str:
    """Return a text argument that must not be empty; raises ConfigError like ``read_questions``."""
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key!r} must be a text that is not empty")
    return value


def one_of(arguments: Mapping[str, Any], key: str, allowed: tuple[Word, ...]) -> Word:
    """Return an argument from a fixed set of words; raises ConfigError like ``read_questions``."""
    value = arguments.get(key)
    for candidate in allowed:
        if value == candidate:
            return candidate
    raise ConfigError(f"{key!r} must be one of {', '.join(allowed)}")


def list_of(arguments: Mapping[str, Any], key: str, kind: type, *, optional: bool = False) -> list[Any]:
    """Return an array argument with items of one kind; raises ConfigError like ``read_questions``."""
    value = arguments.get(key, [] if optional else None)
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise ConfigError(f"{key!r} must be an array of {'texts' if kind is str else 'objects'}")
    return value


def _texts(arguments: Mapping[str, Any], key: str, *, optional: bool = False) -> tuple[str, ...]:
    return tuple(list_of(arguments, key, str, optional=optional))
