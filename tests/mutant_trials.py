"""Tries mutants: the tests are collected once, and each mutant gets a fork of that process.

mutmut makes the mutants; it tries each of them in a new run of pytest, whose collection takes longer than most mutants
live. Here a fork gives the function that is mutated the code of its mutant and runs the tests that reach the function,
first those that killed its other mutants, until one fails. :mod:`tests.mutants` reports the results.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn, TypeVar

import mutmut.__main__ as mutmut
import mutmut.mutation.trampoline as trampoline
import pytest
from mutmut.configuration import config
from mutmut.mutation.data import SourceFileMutationData
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, walk_mutatable_files

Value = TypeVar("Value")
WORKPLACE = Path("mutants")
"""mutmut's folder: the mutated copy of the sources, with a ``.meta`` beside each module for the results."""
SURVIVED, KILLED, UNREACHED, TIMEOUT = 0, 1, 33, 36
"""mutmut's numbers for results."""
PATIENCE = 20
"""A test that takes so many times its time, and :data:`GRACE` seconds more, won't end."""
GRACE = 5
WHOLE_TEST = 600
"""Seconds that a test may take without a mutant, noting all that it calls, on a machine that does other things too."""
SLOTS = os.cpu_count() or 2
"""So many mutants are tried at once."""
MEMORY = 8 << 30
"""Bytes of address space of a trial. A mutant that fills the memory is killed by it."""


class Reach:
    """Which tests reach which functions, and how long each test takes."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}
        """For each function, in mutmut's spelling: the ids of the tests that call it."""
        self.seconds: dict[str, float] = {}
        self.imported: set[str] = set()
        """Functions that were called before the first test: while modules were imported, or tests collected."""

    def add(self, other: Mapping[str, Any]) -> None:
        for function, tests in other["tests"].items():
            self.tests.setdefault(function, []).extend(tests)
        self.seconds |= other["seconds"]
        self.imported |= set(other["imported"])


def make_mutants() -> None:
    """Let mutmut write the mutated copy of the sources; results of functions that did not change stay."""
    trampoline.set_mutant_under_test("mutant_generation")
    WORKPLACE.mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    mutmut.create_mutants(SLOTS)
    trampoline.set_mutant_under_test("")


def function_of_key(key: str) -> str:
    """The function that a mutant changes, in mutmut's spelling: ``cognition.base.ids.x_effect_id``."""
    return key.rpartition("__mutmut_")[0]


def results() -> dict[str, SourceFileMutationData]:
    """All mutants with their results so far, by module file."""
    read = {}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        data.meta_path = data.meta_path.resolve()  # runs of pytest go to another folder
        read[str(path)] = data
    return read


# ------------------------------------------------------------------------------------------------------ runs of pytest


def run_pytest(plugin: object, *arguments: str) -> int:
    """Run pytest in the mutated copy, in this process, which prints no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(WORKPLACE)
    sys.path[:] = [str(Path.cwd())] + [entry for entry in sys.path if Path(entry).resolve() != Path.cwd().parent]
    # In memory: a file for what tests print would be shared by all forks.
    chosen = ["--rootdir=.", "-q", "--capture=sys", "--timeout=60", *config().pytest_add_cli_args, *arguments]
    return int(pytest.main([*chosen, *config().pytest_add_cli_args_test_selection], plugins=[plugin]))


def in_child(work: Callable[..., Value], *arguments: Any) -> Callable[[], Value]:
    """Start ``work`` in a fork of this process; the function returned waits for its value."""
    reader, writer = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = os.fork()
    if not process:
        status = 1
        try:
            writer.send(work(*arguments))
            status = 0
        finally:
            os._exit(status)
    writer.close()

    def wait() -> Value:
        try:
            value: Value = reader.recv()
        except EOFError:
            sys.exit("a run of the tests ended early; its output says why")
        finally:
            os.waitpid(process, 0)
        return value

    return wait


class Recorder:
    """Notes which test calls which function: every second test file, so that two processes share the work."""

    def __init__(self, part: int, parts: int) -> None:
        self.part, self.parts = part, parts
        self.functions: list[Mapping[str, FunctionType]] = []
        self.reached: set[int] = set()
        self.before: set[int] = set()
        self.by_test: dict[str, set[int]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def wrap(self, mutants: dict[str, FunctionType], is_classmethod: bool = False) -> Callable[..., Any]:
        del is_classmethod
        number = len(self.functions)
        self.functions.append(mutants)
        add = self.reached.add

        def note(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def noted(*args: Any, **kwargs: Any) -> Any:
                add(number)
                return function(*args, **kwargs)

            return noted

        return note

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files = sorted({item.path for item in items})
        mine = set(files[self.part :: self.parts])
        items[:] = [item for item in items if item.path in mine]

    def pytest_runtestloop(self) -> None:
        import_mutated()
        self.before = set(self.reached)

    def pytest_runtest_logstart(self) -> None:
        forget()
        self.reached.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when == "teardown":
            self.by_test[report.nodeid] = set(self.reached)

    def name(self, number: int) -> str | None:
        mutants = self.functions[number]
        for name, mutant in mutants.items():
            if name != "_mutmut_orig":
                return function_of_key(f"{mutant.__module__}.{name}")
        return None

    def result(self) -> dict[str, Any]:
        tests = defaultdict(list)
        for test, numbers in self.by_test.items():
            for number in numbers:
                if (name := self.name(number)) is not None:
                    tests[name].append(test)
        imported = [name for number in self.before if (name := self.name(number)) is not None]
        return {"tests": dict(tests), "seconds": self.seconds, "imported": imported, "failed": self.failed}


def record_part(part: int, parts: int) -> dict[str, Any]:
    recorder = Recorder(part, parts)
    trampoline.wrap_in_trampoline = recorder.wrap  # type: ignore[assignment]  # the modules import it from there
    run_pytest(recorder, f"--timeout={WHOLE_TEST}")
    return recorder.result()


def record_reach() -> Reach:
    """Run all tests once without a mutant, and note what each of them reaches."""
    reach = Reach()
    for wait in [in_child(record_part, part, SLOTS) for part in range(SLOTS)]:
        found = wait()
        if found["failed"]:
            sys.exit(f"without a mutant these fail: {', '.join(found['failed'][:10])}")
        reach.add(found)
    if not reach.seconds:
        sys.exit("no test was found: do the chosen files exist?")
    return reach


# -------------------------------------------------------------------------------------------------------------- trials


class Trials:
    """Plugin of the process that collects the tests and forks once per mutant."""

    def __init__(self, keys: Sequence[str], reach: Reach, report: Callable[[str, int, str], None]) -> None:
        self.keys, self.reach, self.report = keys, reach, report
        self.registered: list[tuple[FunctionType, dict[str, FunctionType]]] = []
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        """For each function and each module, the tests that killed mutants of it."""
        self.running: dict[int, tuple[str, int]] = {}
        self.pipe = -1
        self.reported = False
        self.wrong = ""
        """Why nothing could be tried, or nothing."""

    def wrap(self, mutants: dict[str, FunctionType], is_classmethod: bool = False) -> Callable[..., Any]:
        del is_classmethod

        def keep(function: FunctionType) -> FunctionType:
            self.registered.append((function, mutants))
            return function

        return keep

    def pytest_internalerror(self, excrepr: object) -> None:
        self.wrong = str(excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import_mutated()
        items = {item.nodeid: item for item in session.items}
        codes = {
            f"{mutant.__module__}.{name}": (function, getattr(mutant, "__func__", mutant))
            for function, mutants in self.registered
            for name, mutant in mutants.items()
        }
        needed = {test for key in self.keys for test in self.reach.tests[function_of_key(key)]}
        everything = sorted(needed, key=self.seconds)
        for order in (everything, random.Random(0).sample(everything, len(everything))):  # none of them may fail
            self.start("", [items[test] for test in order], lambda: None)
        while self.running:
            _, status, killer = self.wait()
            if status != SURVIVED:
                self.wrong = f"without a mutant, {killer} fails in a fork"
        if self.wrong:
            return True
        for key in self.keys:
            tests = self.order(key)
            if len(self.running) == SLOTS:
                self.finish()
            function, mutant = codes[key]
            self.start(key, [items[test] for test in tests], functools.partial(give_code, function, mutant))
        while self.running:
            self.finish()
        return True

    def seconds(self, test: str) -> float:
        return self.reach.seconds.get(test, 0.0)

    def order(self, key: str) -> list[str]:
        """The tests that reach a mutant: those first that killed others of its function and module, then by time."""
        function = function_of_key(key)
        near, far = self.killers[function], self.killers[function.rpartition(".")[0]]
        return sorted(self.reach.tests[function], key=lambda test: (-near[test], -far[test], self.seconds(test), test))

    def start(self, key: str, items: Sequence[pytest.Item], mutate: Callable[[], None]) -> None:
        reader, writer = os.pipe()
        process = os.fork()
        if not process:
            os.close(reader)
            self.pipe = writer
            self.run(items, mutate)
        os.close(writer)
        self.running[process] = key, reader

    def run(self, items: Sequence[pytest.Item], mutate: Callable[[], None]) -> NoReturn:
        """Run tests under a mutant until one fails, and end this process."""
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            mutate()
            forget()
            for item, following in zip(items, [*items[1:], None], strict=True):
                used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
                allowed = int(used + GRACE + PATIENCE * self.seconds(item.nodeid))
                resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))
                self.reported = False
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if not self.reported:
                    self.killed(item.nodeid)
        except BaseException as error:  # whatever it is, a run of the tests would have ended with it
            self.killed(f"{type(error).__name__}: {error}")
        os._exit(SURVIVED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.killed(report.nodeid)
        self.reported = True

    def killed(self, killer: str) -> NoReturn:
        os.write(self.pipe, killer.encode("utf-8", "backslashreplace")[:4000])
        os._exit(KILLED)

    def wait(self) -> tuple[str, int, str]:
        """Wait for a trial: its mutant, its result, and the test that failed."""
        process, ended = os.wait()
        key, reader = self.running.pop(process)
        with open(reader, encoding="utf-8") as pipe:
            killer = pipe.read()
        code = os.waitstatus_to_exitcode(ended)
        if code == -signal.SIGXCPU:
            code = TIMEOUT
        return key, code if code in (SURVIVED, TIMEOUT) else KILLED, killer

    def finish(self) -> None:
        key, result, killer = self.wait()
        if killer:
            function = function_of_key(key)
            for place in (function, function.rpartition(".")[0]):
                self.killers[place][killer] += 1
        self.report(key, result, killer)


def import_mutated() -> None:
    """Import what the first use of something imports, so that every mutant is at hand."""
    for path in walk_mutatable_files():
        importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))


def give_code(function: FunctionType, mutant: FunctionType) -> None:
    """Let a function do what its mutant does, wherever it was imported to."""
    function.__code__ = mutant.__code__
    function.__defaults__ = mutant.__defaults__
    function.__kwdefaults__ = mutant.__kwdefaults__


def forget() -> None:
    """Drop what the core has worked out and keeps: a mutant must do it again, and so must a test that is recorded."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cognition"):
            for kept in list(vars(module).values()):
                if hasattr(kept, "cache_clear"):
                    kept.cache_clear()
    if (words := sys.modules.get("cognition.context.words")) is not None:
        words._CHARACTERS.clear()


class Chosen:
    """Plugin of a run for one mutant: only the tests that reach it, and whether one fails."""

    def __init__(self, tests: Collection[str]) -> None:
        self.tests = set(tests)
        self.killer = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.tests]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.killer = self.killer or report.nodeid


def try_from_import(key: str, tests: Collection[str]) -> tuple[str, int, str]:
    """Try a mutant that is there before anything is imported; for functions that are called by an import."""
    chosen = Chosen(tests)
    trampoline.set_mutant_under_test(key)
    config().pytest_add_cli_args_test_selection = sorted({test.partition("::")[0] for test in tests})
    code = run_pytest(chosen, "--exitfirst")
    return key, SURVIVED if code == pytest.ExitCode.OK else KILLED, chosen.killer


# ------------------------------------------------------------------------------------------------------------ the whole


class Results:
    """Results of the trials, saved now and then in mutmut's files."""

    def __init__(self, modules: Mapping[str, SourceFileMutationData], total: int) -> None:
        self.module = {key: data for data in modules.values() for key in data.exit_code_by_key}
        self.total = total
        self.tried: Counter[int] = Counter()
        self.unsaved: dict[str, SourceFileMutationData] = {}
        self.began = self.saved = time.monotonic()

    def note(self, key: str, result: int, killer: str) -> None:
        del killer
        data = self.module[key]
        data.exit_code_by_key[key] = result
        self.unsaved[str(data.path)] = data
        self.tried[result] += 1
        if time.monotonic() - self.saved > 10:
            self.save()

    def save(self) -> None:
        for data in self.unsaved.values():
            data.save()
        self.unsaved.clear()
        self.saved = time.monotonic()
        survived = self.tried[SURVIVED] + self.tried[UNREACHED]
        minutes = (self.saved - self.began) / 60
        say(f"{self.tried.total()} of {self.total} tried in {minutes:.1f} minutes, {survived} survived")


def say(line: str) -> None:
    """Print at once, also from a run of pytest, which keeps what is printed."""
    os.write(2, f"{line}\n".encode())


def try_in_forks(keys: Sequence[str], reach: Reach) -> None:
    results_so_far = Results(results(), len(keys))
    reached = [key for key in keys if function_of_key(key) in reach.tests]
    for key in set(keys) - set(reached):
        results_so_far.note(key, UNREACHED, "")
    trials = Trials(reached, reach, results_so_far.note)
    trampoline.wrap_in_trampoline = trials.wrap  # type: ignore[assignment]  # the modules import it from there
    run_pytest(trials)
    results_so_far.save()
    if trials.wrong:
        say(trials.wrong)
        sys.exit(1)


def survivors(keys: Collection[str]) -> Iterator[str]:
    for data in results().values():
        yield from (key for key, code in data.exit_code_by_key.items() if code == SURVIVED and key in keys)


def try_mutants(keys: Sequence[str], reach: Reach) -> None:
    """Try mutants, and keep the results in mutmut's files.

    First in forks. Then the survivors among functions that were called before the forks, each in a run of its own.
    """

    def cost(key: str) -> float:
        return sum(reach.seconds[test] for test in reach.tests.get(function_of_key(key), ()))

    in_child(try_in_forks, sorted(keys, key=cost), reach)()
    again = [key for key in survivors(set(keys)) if function_of_key(key) in reach.imported]
    if again:
        say(f"{len(again)} survivors are of functions that an import calls: each is tried with a run of its own")
    results_so_far = Results(results(), len(again))
    for first in range(0, len(again), SLOTS):
        for wait in [
            in_child(try_from_import, key, reach.tests[function_of_key(key)]) for key in again[first : first + SLOTS]
        ]:
            results_so_far.note(*wait())
    results_so_far.save()
