"""Which of the programs are installed, where, and in which version."""

from __future__ import annotations

import re
import subprocess

from attrs import frozen

from cognition import GenerationOptions
from runtime.children import starting
from runtime.errors import ModelNotFoundError
from runtime.programs.claude import CLAUDE
from runtime.programs.codex import CODEX
from runtime.programs.handles import find_program
from runtime.programs.program import Program

SECONDS = 15.0
"""The time that a program has to say its version. Some are started by an interpreter, on a disk that sleeps."""
VERSION = re.compile(r"\d+(?:\.\d+)+[0-9A-Za-z.+-]*")


@frozen
class InstalledProgram:
    """One of the programs that can be a model."""

    name: str
    path: str = ""
    """Empty: it is not installed."""
    version: str = ""
    """Empty where it could not say it."""
    problem: str = ""
    """Why it can't be used, as the end of a sentence."""


def installed_programs() -> tuple[InstalledProgram, ...]:
    """All of them, whether or not they are installed. Each is asked for its version, and gets no key for that."""
    return tuple(_looked_at(program) for program in (CLAUDE, CODEX))


def _looked_at(program: Program) -> InstalledProgram:
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
