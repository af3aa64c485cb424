"""Which line of an engine asks for the time, for randomness or for anything outside, seen while a step runs.

All of these end in functions that are written in C, and Python tells a profile function of each call of one, with the
frame that makes it. So nothing is replaced, an engine runs as it is, and the line is known. What Python does not tell
is missed: a call that C code makes itself, as in ``map(time.sleep, [1])``. That values differ is seen besides.

Must not know of laws. It is the one module of the core that uses ``sys``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FrameType
from typing import Any

from attrs import frozen

CLOCK, CHANCE, WORLD = "reads a clock", "draws randomness", "does I/O"

INSTEAD: Mapping[str, str] = {
    CLOCK: "the time is the input's `at`",
    CHANCE: "derive it from the state, for example with random.Random(state.counters.turn)",
    WORLD: "decide an effect, and let an interpreter carry it out",
}
"""What an engine does in place of each."""

FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "time": {
        **dict.fromkeys(("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"), CLOCK),
        **dict.fromkeys(("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime"), CLOCK),
        **dict.fromkeys(("clock_gettime_ns", "sleep"), CLOCK),
    },
    "builtins": dict.fromkeys(("open", "print", "input"), WORLD),
    "io": dict.fromkeys(("open", "open_code"), WORLD),
    "_io": dict.fromkeys(("open", "open_code"), WORLD),
    "_uuid": dict.fromkeys(("generate_time_safe", "UuidCreate"), CHANCE),
    "_thread": dict.fromkeys(("start_new_thread", "start_joinable_thread"), WORLD),
}
"""Functions by the module that Python says they are of, and what each does."""

OUTSIDE: Mapping[str, str] = {
    **dict.fromkeys(("posix", "nt", "_socket", "socket", "_ssl", "select", "_posixsubprocess", "_winapi"), WORLD),
    **dict.fromkeys(("_sqlite3", "sqlite3", "fcntl", "mmap", "_io"), WORLD),
}
"""Modules of which every function counts, and every method of their classes."""

HARMLESS = frozenset({"fspath", "_path_normpath", "_path_splitroot", "_path_splitroot_ex", "text_encoding"})
"""Functions of those modules that only work on text."""
IN_MEMORY = frozenset({"StringIO", "BytesIO"})
"""Their classes that hold what they are given, and nothing else."""
RANDOM_BYTES = frozenset({"urandom", "getrandom"})

READ_WITHOUT_ARGUMENTS: Mapping[str, int] = {"gmtime": 1, "localtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""Functions of ``time`` that read the clock when they get fewer arguments than these."""

LIBRARY = str(json.__file__).replace("\\", "/").rpartition("/json/")[0]
"""The folder of Python's own library: what an engine calls there is not where the mistake is."""

SEARCHING = "/hypothesis/"
"""It times the garbage collector, whose turn may come within a step."""


@frozen
class Asked:
    """One call by which a step asked for more than its arguments."""

    what: str
    """What it does: one of ``INSTEAD``."""
    call: str
    """The function, such as ``time.time``."""
    file: str
    line: int
    function: str
    """Where the engine's own code calls it, or what leads there."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}, in {self.function}"
        return f"step {self.what}: {self.call}() is called at {where}. In a step, {INSTEAD[self.what]}"


class Watch:
    """A context manager: ``asked`` is the first call within it that asks for something outside."""

    def __init__(self) -> None:
        self.asked: Asked | None = None
        self._seeded: list[Any] = []
        self._home: FrameType | None = None
        self._before: Any = None

    def __enter__(self) -> Watch:
        self._home, self._before = sys._getframe(1), sys.getprofile()
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(self._before)
        self._home = self._before = None

    def _hear(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or self.asked is not None or not isinstance(called, BuiltinFunctionType):
            return
        what = self._what(called, frame)
        if what is not None:
            where = self._where(frame)
            if where is not None:
                code = where.f_code
                self.asked = Asked(what, _name(called), code.co_filename, where.f_lineno, code.co_qualname)

    def _what(self, called: BuiltinFunctionType, frame: FrameType) -> str | None:
        owner, name = called.__self__, called.__name__
        kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
        families = {kind.__module__ for kind in kinds}
        if "_random" in families:
            return self._drawn(owner, name, frame)
        if isinstance(owner, type) and "datetime" in families:
            return CLOCK if name in ("now", "utcnow", "today") else None
        module = called.__module__ or ""
        if module == "time" and name in READ_WITHOUT_ARGUMENTS:
            return CLOCK if _arguments(frame) < READ_WITHOUT_ARGUMENTS[name] else None
        if module in FUNCTIONS:
            return FUNCTIONS[module].get(name)
        if name in HARMLESS or ("_io" in families and kinds[0].__name__ in IN_MEMORY):
            return None
        if name in RANDOM_BYTES and module in OUTSIDE:
            return CHANCE
        return next((OUTSIDE[family] for family in (module, *families) if family in OUTSIDE), None)

    def _drawn(self, generator: Any, name: str, frame: FrameType) -> str | None:
        """Randomness that a step seeds itself is none: equal arguments draw the same again."""
        if name == "seed" and frame.f_locals.get("a") is not None:
            self._seeded.append(generator)
            return None
        return None if any(generator is one for one in self._seeded) else CHANCE

    def _where(self, frame: FrameType) -> FrameType | None:
        """The innermost frame of a step that is not the library's; None for what no line of it asked for: imports at
        their first use, and what is done when memory is freed, which may be at any moment.
        """
        found: FrameType | None = None
        here: FrameType | None = frame
        while here is not None and here is not self._home:
            file = here.f_code.co_filename.replace("\\", "/")
            if file.startswith("<frozen importlib") or here.f_code.co_name == "__del__" or SEARCHING in file:
                return None
            own = not file.startswith("<") and (not file.startswith(LIBRARY) or "-packages/" in file)
            found = here if found is None and own else found
            here = here.f_back
        return found or frame


def _arguments(frame: FrameType) -> int:
    """How many arguments the call has that a frame is at: the operand of its instruction."""
    return frame.f_code.co_code[frame.f_lasti + 1]


def _name(called: BuiltinFunctionType) -> str:
    module = (called.__module__ or "").lstrip("_")
    module = "os" if module in ("posix", "nt") else module
    return f"{module}.{called.__name__}" if module not in ("", "builtins") else called.__qualname__
