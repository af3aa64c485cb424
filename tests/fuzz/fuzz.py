"""Coverage-guided fuzzing of what reads texts of models and templates of strangers (atheris, that is libFuzzer).

    python tests/fuzz/fuzz.py                    every target at once, 10 minutes; ``make fuzz`` is the same
    python tests/fuzz/fuzz.py parser --seconds 60
    python tests/fuzz/fuzz.py parser --reproduce tests/fuzz/.work/parser/crash-...

Each target runs in a process of its own, beginning with its folder in ``corpus``. What it learns is kept in ``.work``,
which git ignores, so that the next run goes on from there. An input that fails is left there as ``crash-...``: mend the
fault, after it has become a test, and put the input into the corpus, through which every run of the tests goes.
Exit status: 0, or 1 if an input failed, 2 if atheris is not installed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `python tests/fuzz/fuzz.py`

NAMES = ("parser", "repair", "derivation", "schema", "wire")
"""Of the targets. Importing them here would load what is to be instrumented first."""

LONGEST_INPUT = 1024
"""Bytes. Faults of parsers show in short texts, and short ones run faster."""

SLOW = 30
"""Seconds for one input: beyond it, it counts as a hang."""


def fuzz(name: str, seconds: int, work: Path) -> None:
    """Fuzz one target in this process, and leave it when the time is over."""
    import atheris

    with atheris.instrument_imports(include=["cognition", "runtime"]):
        from tests.fuzz.targets import TARGETS
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0], str(folder), str(HERE / "corpus" / name), f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}", f"-timeout={SLOW}", f"-artifact_prefix={folder}/", "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup(arguments, TARGETS[name])
    atheris.Fuzz()


def run_all(names: list[str], seconds: int, work: Path) -> int:
    """Each target in a process of its own, all at once; the exit status of the whole."""
    started = {
        name: subprocess.Popen(
            [sys.executable, __file__, name, "--seconds", str(seconds), "--work", str(work), "--here"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        for name in names
    }  # fmt: skip
    failed = False
    try:
        for name, process in started.items():
            said, _ = process.communicate(timeout=seconds + 120)
            failed = failed or process.returncode != 0
            print(summary(name, said, process.returncode))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    return int(failed)


def summary(name: str, said: str, status: int) -> str:
    """One line for a target that found nothing, else all that there is to know of the failure."""
    runs = re.search(r"stat::number_of_executed_units: (\d+)", said)
    covered = re.findall(r" cov: (\d+)", said)
    if status == 0 and runs and covered:
        return f"{name}: {int(runs[1]):,} inputs, {int(covered[-1]):,} edges covered, nothing failed"
    return f"{name}: FAILED (status {status})\n" + "\n".join(said.splitlines()[-60:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--seconds", type=int, default=600, help="for each target (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=HERE / ".work", help="where inputs are kept (default: .work here)")
    parser.add_argument("--reproduce", type=Path, metavar="FILE", help="try one input, without atheris")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one target, in this process
    options = parser.parse_args()
    names = options.targets or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.reproduce is not None:
        from tests.fuzz.targets import TARGETS

        TARGETS[names[0]](options.reproduce.read_bytes())
        return 0
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris (it has wheels for Linux)", file=sys.stderr)
        return 2
    if options.here:
        fuzz(names[0], options.seconds, options.work)
        return 0
    return run_all(names, options.seconds, options.work)


if __name__ == "__main__":
    sys.exit(main())
