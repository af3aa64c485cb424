"""From a model's name to a program: ``claude``, ``claude:sonnet``, ``codex``, ``codex:gpt-5``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import evolve

from runtime.errors import ModelOptionsError, ModelSpecError
from runtime.local.real_model_guard import check_allowed

if TYPE_CHECKING:
    from runtime.programs.handles import ProgramRuntime

NAMED = re.compile(r"(claude|codex)(?::(.*))?", re.IGNORECASE | re.DOTALL)
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,127}")
"""A model's name that both programs accept. It cannot start like an option."""


def names_program(spec: object) -> bool:
    """Return whether a spec names a program; a file or directory of that name takes precedence."""
    return isinstance(spec, str) and NAMED.fullmatch(spec) is not None and not os.path.lexists(spec)


def load_program(
    spec: str, local: Mapping[str, object], options: object, context_tokens: int | None, queue_limit: int
) -> ProgramRuntime:
    """Return the runtime of a program; starts nothing.

    Args:
        spec: see above.
        local: options of local models; all must be unset.
        options: of the program's own class; None for the defaults.
        context_tokens: overrides the options; None does not.
        queue_limit: as in ``load_model``.

    Raises:
        ModelLoadError: one of its subclasses, with a one-line remedy.
    """
    from runtime.programs._claude import CLAUDE
    from runtime.programs._codex import CODEX
    from runtime.programs.handles import ProgramRuntime  # here, so that whoever asks no program loads none of it

    found = NAMED.fullmatch(spec)
    assert found is not None
    program = {one.name: one for one in (CLAUDE, CODEX)}[found[1].lower()]
    model = found[2]
    if model is not None and not MODEL.fullmatch(model):
        raise ModelSpecError(
            f"{model[:60]!r} is no name of a model; write {program.name}, or {program.name}: and the name", spec=spec
        )
    if given := [name for name, value in local.items() if value]:
        raise ModelOptionsError(f"{spec} is a program of its own: leave out {', '.join(given)}", spec=spec)
    if options is not None and not isinstance(options, program.options):
        raise ModelOptionsError(
            f"options of {program.name} are {program.options.__name__}, not {type(options).__name__}", spec=spec
        )
    check_allowed(f"load {spec}")
    chosen = program.options() if options is None else options
    if context_tokens is not None:
        chosen = evolve(chosen, context_tokens=context_tokens)
    return ProgramRuntime(program, model or "", chosen, queue_limit)
