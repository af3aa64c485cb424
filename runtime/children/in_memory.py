"""Programs of ours whose code lies in memory, not in files.

A confined command may write in the folder that our modules are in, such as a project's own ``.venv``. The processes
that watch or confine a command, or search for a tool, are not confined. So they run nothing from there: their
interpreter is the one that a virtual environment was made of, and they read their code from a descriptor. That code was
taken when this program was loaded.
"""

from __future__ import annotations

import marshal
import os
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

BOOT = """import marshal, os, sys
source, left, parts = int(sys.argv.pop(1)), int(sys.argv.pop(1)), []
while left and (part := os.read(source, left)):
    parts.append(part)
    left -= len(part)
if source:
    os.close(source)
for name, code in marshal.loads(b"".join(parts)):
    start = sys.modules[name] = type(sys)(name)
    exec(code, start.__dict__)
start.main()"""
"""Reads modules from a descriptor, and runs ``main()`` of the last one."""

FLAGS = ("-I", "-S", "-X", "utf8", "-W", "ignore")

FIRST = 20
"""The least number of a descriptor for an ``Input``. Shells know those up to 9 only, which have other uses."""


def _python() -> str:
    if getattr(sys, "frozen", False):  # it can start only itself
        return ""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base) if base and os.path.isfile(base) else ""


PYTHON = _python()
"""The path of the interpreter itself, without links; empty without one."""


def code_of(*modules: ModuleType) -> bytes:
    """Return the code of modules for ``BOOT``, each after those that it imports; empty if it can't be had."""
    found = []
    for module in modules:
        file = module.__file__ or ""
        if file.endswith(".py") and os.path.isfile(file):
            loader: Any = SourceFileLoader(module.__name__, file)
        else:  # such as an archive
            loader = getattr(module.__spec__, "loader", None)
        try:
            code = loader.get_code(module.__name__)
        except (AttributeError, ImportError, OSError):
            code = None
        if code is None:
            return b""
        found.append((module.__name__, code))
    return marshal.dumps(found)


def is_possible(code: bytes) -> bool:
    return bool(PYTHON and code)


class Input(str):
    """A word of a command. In its place stands the number of a descriptor, from which the program reads ``data``."""

    data: bytes

    def __new__(cls, data: bytes) -> Input:
        made = super().__new__(cls, f"<{len(data)} bytes>")
        made.data = data
        return made


def words(code: bytes, boot: str = BOOT) -> tuple[str, ...]:
    """Return the words that start a program in memory. Its arguments follow."""
    return (PYTHON, *FLAGS, "-c", boot, Input(code), str(len(code)))


def request_of(command: Sequence[str]) -> list[str | Mapping[str, str]]:
    """Return the words of a command for a keeper's request."""
    return [{"input": b64encode(one.data).decode()} if isinstance(one, Input) else one for one in command]


@contextmanager
def opened(command: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the words of a command for ``subprocess``, and the descriptors to pass on."""
    with ExitStack() as held:
        found: list[str] = []
        passed: list[int] = []
        for one in command:
            if isinstance(one, Input):
                passed.append(_open(one.data, held))
                found.append(str(passed[-1]))
            else:
                found.append(one)
        yield found, passed


def _open(data: bytes, held: ExitStack) -> int:
    import fcntl  # not on Windows

    with os.fdopen(os.memfd_create("cogstep"), "wb") as file:
        file.write(data)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        number = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST)
    held.callback(os.close, number)
    return number
