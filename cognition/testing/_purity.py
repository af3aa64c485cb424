"""Finds the line of an engine that reads the clock, random numbers or another outside source, during a step.

All of these end in C functions, and Python reports each call of a C function to a profile function, with the calling
frame. So no function is replaced, the engine runs unchanged, and the line is known. Python does not report calls made
by C code, as in ``map(time.sleep, [1])``, so those are missed. A separate check notices values that differ.

This module must not depend on the laws. It is the only module of the core that uses ``sys``.
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
"""The alternative that an engine has for each."""

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
"""Functions by the module that Python reports for them, with the kind of each."""

OUTSIDE: Mapping[str, str] = {
    **dict.fromkeys(("posix", "nt", "_socket", "socket", "_ssl", "select", "_posixsubprocess", "_winapi"), WORLD),
    **dict.fromkeys(("_sqlite3", "sqlite3", "fcntl", "mmap", "_io"), WORLD),
}
"""Modules whose functions, and methods of their classes, all count."""

HARMLESS = frozenset({"fspath", "_path_normpath", "_path_splitroot", "_path_splitroot_ex", "text_encoding"})
"""Functions of those modules that only process text."""
IN_MEMORY = frozenset({"StringIO", "BytesIO"})
"""Classes of those modules that only store data in memory."""
RANDOM_BYTES = frozenset({"urandom", "getrandom"})

BY_THE_LIBRARY: Mapping[str, str] = {
    "time.time_ns": "time.time",  # of logging, since 3.13
    "thread.start_joinable_thread": "thread.start_new_thread",  # of threading, since 3.13
}
"""One name for functions that the library of each Python version chooses among."""

READ_WITHOUT_ARGUMENTS: Mapping[str, int] = {"gmtime": 1, "localtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""Functions of ``time`` that read the clock if called with fewer arguments than these."""

LIBRARY = str(json.__file__).replace("\\", "/").rpartition("/json/")[0]
"""The folder of Python's standard library. Calls from there are attributed to the engine's line."""

SEARCHING = "/hypothesis/"
"""Hypothesis times the garbage collector, which may run during a step."""


@frozen
class OutsideCall:
    """A call of a step that used more than its arguments."""

    what: str
    """Its kind: one of ``INSTEAD``."""
    call: str
    """The function, such as ``time.time``."""
    file: str
    line: int
    function: str
    """The engine's function that calls it, directly or indirectly."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}, in {self.function}"
        return f"step {self.what}: {self.call}() is called at {where}. In a step, {INSTEAD[self.what]}"


class PurityProbe:
    """A context manager: ``asked`` is the first call within it that uses an outside source."""

    def __init__(self) -> None:
        self.asked: OutsideCall | None = None
        self._seeded: list[Any] = []
        self._home: FrameType | None = None
        self._before: Any = None

    def __enter__(self) -> PurityProbe:
        self._home, self._before = sys._getframe(1), sys.getprofile()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(self._before)
        self._home = self._before = None

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or self.asked is not None or not isinstance(called, BuiltinFunctionType):
            return
        what = self._outside_source(called, frame)
        if what is not None and (where := self._step_frame(frame)) is not None:
            code, call = where.f_code, _name(called)
            call = call if where is frame else BY_THE_LIBRARY.get(call, call)
            self.asked = OutsideCall(what, call, code.co_filename, where.f_lineno, code.co_qualname)

    def _outside_source(self, called: BuiltinFunctionType, frame: FrameType) -> str | None:
        owner, name = called.__self__, called.__name__
        kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
        families = {kind.__module__ for kind in kinds}
        if "_random" in families:
            return self._random_draw(owner, name, frame)
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

    def _random_draw(self, generator: Any, name: str, frame: FrameType) -> str | None:
        """Return the kind of a random draw; None if the step seeded the generator, as equal arguments then draw the
        same values.
        """
        if name == "seed" and frame.f_locals.get("a") is not None:
            self._seeded.append(generator)
            return None
        return None if any(generator is one for one in self._seeded) else CHANCE

    def _step_frame(self, frame: FrameType) -> FrameType | None:
        """Return the innermost frame of a step that is outside of the standard library.

        None if no line of the engine caused the call: imports at first use, and finalizers, which may run at any
        moment.
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
    """Return the number of arguments of the frame's current call, from its instruction's operand."""
    return frame.f_code.co_code[frame.f_lasti + 1]


def _name(called: BuiltinFunctionType) -> str:
    module = (called.__module__ or "").lstrip("_")
    module = "os" if module in ("posix", "nt") else module
    return f"{module}.{called.__name__}" if module not in ("", "builtins") else called.__qualname__
