"""One round of each benchmark, in small: not to measure anything, but to see that each of them still runs.

    python benchmarks/once.py                 all of them; ``make bench-once`` is the same
    python benchmarks/once.py step parsing    these

The first run installs the peers, as the benchmarks themselves do: some minutes.
Each is a process of its own, whose output is shown when it ends. Exit status: 0 if all of them ended well, else 1; 130
when interrupted, and the one that runs ends with it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/once.py`

from benchmarks.table import Progress, machine, table

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "runtime" / "small_model" / "small-tools-qwen3-q8_0.gguf"

ONCE: Mapping[str, Sequence[str]] = {
    "step": ("--samples", "32", "--steps", "400", "--sessions", "20"),
    "policy": ("--rounds", "2"),
    "context": ("--turns", "60", "--steps", "5", "--results", ""),
    "tau2": ("--install", "--every", "40"),
    "tools": ("--files", "300", "--rounds", "1"),
    "memory": ("--passages", "500", "--rounds", "3"),
    "long_session": ("--turns", "5,10", "--rounds", "2"),
    "turn": ("--lengths", "10", "--turns", "3"),
    "beside": (".", "--lengths", "10", "--turns", "3"),
    "durable": ("--steps", "20", "--rounds", "1"),
    "connections": ("--seconds", "2", "--workers", "1", "--sessions", "5", "--turns", "2", "--unjudged"),
    "durable_hosts": ("--sessions", "4", "--turns", "1", "--words", "50", "--rounds", "preference"),
    "stores": ("--sessions", "20", "--lines", "31"),
    "interpreters": ("--conversations", "20", "--turns", "50", "--timed", "3"),
    "idle": ("--sessions", "10"),
    "walk": (),
    "rendering": ("--lengths", "10", "--rounds", "1"),
    "parsing": ("--lengths", "200,400", "--rounds", "1"),
    "redaction": ("--longest", "2000"),
    "scanning": ("--length", "200", "--rounds", "1"),
    "prove": ("--states", "2000"),
    "fairness": ("--queued", "10"),
    "constrained": ("--calls", "4", "--rounds", "1"),
    "json_grammars": ("--schemas", "4"),
    "providers": ("--calls", "20", "--events", "400", "--rounds", "2"),
    "drafting": ("--rounds", "1", "--model", str(SHIPPED)),
    "mlx_server": (
        *("--rounds", "1", "--agents", "2", "--steps", "1"),
        *("--prompt", "8", "--reply", "4", "--system", "30"),
    ),
    "runtime": ("--quick", "--no-native"),
}
"""Every benchmark with the arguments of one small round, the quick ones first. What would first compile llama.cpp's own
programs for ten minutes, to be measured beside them, does without."""

AT_ONCE = 2
"""Benchmarks that run at the same time: most of them use one processor, and nothing is measured here."""

LONGEST = 900.0
"""Seconds that one may take. A hang is a failure and not a stuck CI."""


def once(name: str) -> tuple[str, str, float]:
    """Run one: how it ended, what it printed, and the seconds that it took."""
    began = time.monotonic()
    command = [sys.executable, str(HERE / f"{name}.py"), *ONCE[name]]
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired as error:
        ended, output = f"still ran after {LONGEST:.0f} s", error.stdout or b""
    else:
        ended, output = "ok" if done.returncode == 0 else f"ended with {done.returncode}", done.stdout
    return ended, output.decode(errors="replace"), time.monotonic() - began


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ONCE)} (default: all)")
    names = parser.parse_args().names or list(ONCE)
    if unknown := [name for name in names if name not in ONCE]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(ONCE)}")
    say = Progress()
    lines = [["benchmark", "one small round", "s"]]
    failed: list[tuple[str, str, str]] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        say(f"running {len(names)} benchmarks, {AT_ONCE} at a time")
        try:
            for name, (ended, output, seconds) in zip(names, pool.map(once, names), strict=True):
                say.clear()
                print(f"\n== {name} {' '.join(ONCE[name])}\n{output}", flush=True)
                lines.append([name, ended, f"{seconds:.0f}"])
                if ended != "ok":
                    failed.append((name, ended, output))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    print(f"\n{table(lines)}\n\n{machine()}")
    for name, ended, output in failed:  # once more at the end, where whoever reads only that finds it
        print(f"FAILED {name}: {ended}: {' | '.join(output.splitlines()[-3:])}")
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
