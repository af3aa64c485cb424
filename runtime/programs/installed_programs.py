"""Finds the installed programs, with path and version."""

from __future__ import annotations

import re
import subprocess

from attrs import frozen

from cognition import GenerationOptions
from runtime.children import start as starting
from runtime.errors import ModelNotFoundError
from runtime.programs._claude import CLAUDE
from runtime.programs._codex import CODEX
from runtime.programs._program import Program
from runtime.programs.handles import find_program

SECONDS = 15.0
"""Maximum time to print the version. Some programs need an interpreter, possibly from a sleeping disk."""
VERSION = re.compile(r"\d+(?:\.\d+)+[0-9A-Za-z.+-]*")


@frozen
class InstalledProgram:
    """One of the programs that can serve as a model."""

    name: str
    path: str = ""
    """Empty if it is not installed."""
    version: str = ""
    """Empty if it could not be read."""
    problem: str = ""
    """Why it cannot be used, as the end of a sentence."""


def installed_programs() -> tuple[InstalledProgram, ...]:
    """Return all known programs, installed or not. Runs each for its version, without any key."""
    return tuple(_inspect(program) for program in (CLAUDE, CODEX))


def _inspect(program: Program) -> InstalledProgram:
    try:
        path = find_program(program, program.options())
    except ModelNotFoundError:
        return InstalledProgram(program.name, problem=f"not installed; {program.install}")
    environ = {name: value for name, value in starting.environment().items() if name in starting.NEEDED}
    try:
        said = subprocess.run(
            [path, "--version"],
            env=environ | program.settings(GenerationOptions()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return InstalledProgram(program.name, path, problem=f"did not say its version in {SECONDS:g} s")
    except OSError as error:
        return InstalledProgram(program.name, path, problem=f"can't be started ({error.strerror}); {program.install}")
    found = VERSION.search(said.stdout[:1000].decode("utf-8", "replace"))
    if said.returncode != 0 or found is None:
        return InstalledProgram(program.name, path, problem=f"did not say its version (code {said.returncode})")
    return InstalledProgram(program.name, path, found[0][:40])
