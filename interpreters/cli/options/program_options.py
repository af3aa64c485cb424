"""``--agent MODULE:NAME``: options of ``Agent`` from an embedding program, under their own names.

This resumes sessions that need more than tools: hooks, ``deps``, named secrets, a policy.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping
from typing import Any

from cognition.base.checking import nearest
from interpreters.agents.options import AgentOptions, ProgramOptions, declared_options
from interpreters.cli._errors import CommandError
from interpreters.cli.options.user_modules import call_user_function, load_named
from interpreters.tools.tool import Tool

NOT_HERE = {
    "journal": "--record says where the session is recorded",
    "model": "--model says which one is asked",
    "owns_model": "the command loads its model and closes it",
    "observers": "the command's output is its observer",
}
"""Options of ``Agent`` that the command sets itself, with the reason."""


def program_options(options: argparse.Namespace) -> Mapping[str, Any]:
    """Return the options of the program's agent, including ``tools`` and ``system``; empty without ``--agent``. Loads
    the module once.

    Raises:
        CommandError: it can't be loaded, or is not a mapping of options.
    """
    known: Mapping[str, Any] | None = getattr(options, "program", None)
    if known is None:
        known = options.program = {} if options.agent is None else _load(options.agent)
    return known


def runtime_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options about carrying out a session. All others stay as recorded."""
    names = declared_options(ProgramOptions)
    return {name: value for name, value in program_options(options).items() if name in names}


def configuration_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration for a new session, without tools and system prompt."""
    beside = {*declared_options(ProgramOptions), "tools", "system"}
    return {name: value for name, value in program_options(options).items() if name not in beside}


def _load(name: str) -> Mapping[str, Any]:
    found = load_named("--agent", name)
    if inspect.isroutine(found) and not isinstance(found, Tool):
        found = call_user_function("--agent", name, found)
    if not isinstance(found, Mapping):
        raise CommandError(f"--agent {name} has to be a dict of options of Agent, or a function that gives one")
    allowed = ("tools", "system", *(one for one in declared_options(AgentOptions) if one not in NOT_HERE))
    for key in found:
        if key in NOT_HERE:
            raise CommandError(f"--agent {name} has {key!r} in it, and {NOT_HERE[key]}; leave it out")
        if key not in allowed:
            raise CommandError(f"--agent {name} has {key!r} in it, which is no option of Agent{nearest(key, allowed)}")
    return dict(found)
