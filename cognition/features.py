"""What an agent may do beside calling tools: ask its user, plan, keep a list of tasks, remember, have workers.

The model reaches each of these by a tool that the engine itself carries out (``engine_tools``); a configuration names
the features it wants.
"""

from __future__ import annotations

from typing import Literal

from attrs import Attribute, field, frozen

from cognition.errors import ConfigError

Feature = Literal["questions", "tasks", "plan", "memory", "workers"]

Vocabulary = Literal["cogstep", "claude"]
"""The names of the tools that features add. ``cogstep``: ours. ``claude``: those that models know from Claude Code,
with its arguments: ``AskUserQuestion``, ``TodoWrite``, ``EnterPlanMode``, ``ExitPlanMode`` and ``Task``; a tool that
has no such name keeps ours."""

Mode = Literal["default", "careful", "auto", "plan", "acceptEdits", "bypassPermissions"]
"""How much may happen without the user. ``default``: what policy allows. ``careful``: every call that is not read-only
asks. ``auto``: what policy would ask about runs. ``plan``: only read-only tools run. ``acceptEdits``: reading and
editing run, other tools ask unless a rule allows them. ``bypassPermissions``: what no rule of the policy asks about
runs. See ``docs/policy.md``."""

HookPoint = Literal["session_start", "user_message", "before_tool", "after_tool", "worker_stop", "stop"]
"""Where the program may step in: before the session's first turn, on a user's message, before and after a tool call,
when a worker has ended, and before a turn completes."""

QUESTIONS = (1, 4)
OPTIONS = (2, 4)
"""How many questions may be asked at once, and how many options each may have: what fits a screen."""


def _between(what: str, low: int, high: int, count: int) -> None:
    if not low <= count <= high:
        raise ConfigError(f"{what} must be {low} to {high}, not {count}")


@frozen
class Question:
    """One question to the user with the answers to choose from."""

    text: str
    options: tuple[str, ...] = field()
    multiple: bool = False
    """Whether several options may be chosen."""
    header: str = ""
    """A word or two on what it is about; empty for none."""
    descriptions: tuple[str, ...] = field(default=())
    """What each option means, in the options' order; empty for none."""

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
    """An approved plan that is being executed step by step."""

    steps: tuple[str, ...]
    done: int = 0
    """How many steps are finished; the next one is ``steps[done]``."""


@frozen
class WorkerSpec:
    """What a worker is to do and what it may use. A worker is an engine and a state of its own."""

    name: str
    objective: str
    tools: tuple[str, ...] = ()
    """Names of the parent's tools that it may call."""
    after: tuple[str, ...] = ()
    """Names of workers of the same reply whose results it needs."""
