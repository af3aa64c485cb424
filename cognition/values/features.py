"""An agent's abilities in addition to calling tools: ask its user, plan, list tasks, remember, use workers.

The model uses each feature through a tool that the engine itself executes (``engine_tools``). A configuration names its
features.
"""

from __future__ import annotations

from typing import Literal

from attrs import Attribute, field, frozen

from cognition.base.errors import ConfigError

Feature = Literal["questions", "tasks", "plan", "memory", "workers"]

Vocabulary = Literal["cogstep", "claude"]
"""The names of the tools that features add. ``cogstep``: our names. ``claude``: the names and arguments that models
know from Claude Code: ``AskUserQuestion``, ``TodoWrite``, ``EnterPlanMode``, ``ExitPlanMode`` and ``Task``. Tools
without such a name keep ours.
"""

Mode = Literal["default", "careful", "auto", "plan", "acceptEdits", "bypassPermissions"]
"""How much may happen without the user. See ``docs/guides/policy.md``.

- ``default``: the policy decides.
- ``careful``: every call that is not read-only asks.
- ``auto``: calls that policy would ask about run.
- ``plan``: only read-only tools run.
- ``acceptEdits``: reading and editing run; other tools ask unless a rule allows them.
- ``bypassPermissions``: calls run unless a rule of the policy asks about them.

No mode permits a call that policy denies.
"""

HookPoint = Literal["session_start", "user_message", "before_tool", "after_tool", "worker_stop", "stop"]
"""Where the program may step in: before the session's first turn, on a user's message, before and after a tool call,
when a worker has ended, and before a turn completes.
"""

QUESTIONS = (1, 4)
OPTIONS = (2, 4)
"""How many questions one call may ask, and how many options each may have: as many as fit a screen."""


def _between(what: str, low: int, high: int, count: int) -> None:
    if not low <= count <= high:
        raise ConfigError(f"{what} must be {low} to {high}, not {count}")


@frozen
class Question:
    """A question to the user with the answers to choose from."""

    text: str
    options: tuple[str, ...] = field()
    multiple: bool = False
    """Whether several options may be chosen."""
    header: str = ""
    """A word or two as a heading; may be empty."""
    descriptions: tuple[str, ...] = field(default=())
    """The meaning of each option, in the options' order; may be empty."""

    @options.validator
    def _count(self, _attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
        _between("the options of a question", *OPTIONS, len(value))
        if len(set(value)) != len(value):
            raise ConfigError("the options of a question must differ")

    @descriptions.validator
    def _one_each(self, _attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
        if value and len(value) != len(self.options):
            raise ConfigError(f"a question has {len(self.options)} options and {len(value)} descriptions of them")


TaskStatus = Literal["open", "in_progress", "done"]


@frozen
class Task:
    """One entry of the agent's list of tasks."""

    title: str
    status: TaskStatus = "open"


@frozen
class Plan:
    """An approved plan under execution, step by step."""

    steps: tuple[str, ...]
    done: int = 0
    """The number of finished steps; the next step is ``steps[done]``."""


@frozen
class WorkerSpec:
    """The objective and the tools of a worker. A worker is an engine with its own state."""

    name: str
    objective: str
    tools: tuple[str, ...] = ()
    """Names of the parent's tools that the worker may call."""
    after: tuple[str, ...] = ()
    """Names of the workers of the same reply whose results it needs."""
