"""What keeping secrets out of a recording costs: microseconds a text, by length and by what the text is.

    python benchmarks/redaction.py

Texts that hold nothing are what a session mostly records; a megabyte shows that the price is linear, and texts that are
made to be slow that it stays so. ``--tree DIR`` measures another checkout, for a before and after in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

LENGTHS = (200, 500, 1000, 2000, 1_000_000)
SLOW = (
    "password=",
    'password="',
    "token",
    "://",
    "eyJa.",
    "ghp_",
    "sk-1",
    "-----BEGIN PRIVATE KEY-----",
    "\\\\",
    "%25",
)
NAMED = {"DB": "correct horse battery", "API": "s3cr3t/value+with=marks", "PIN": "12345678"}


def texts() -> dict[str, str]:
    """A megabyte and more of each kind."""
    kinds = {
        "prose": (Path(__file__).resolve().parent.parent / "docs/concepts/architecture.md").read_text("utf-8"),
        "code": Path(os.__file__).read_text("utf-8"),
        "json": json.dumps(
            [{"id": i, "name": f"item-{i}", "path": f"/usr/lib/x{i}.py", "ok": True} for i in range(999)]
        ),
        "log": "".join(
            f"2026-11-24T13:17:00.123Z INFO server[{i}]: GET /api/v1/items/{i} 200 {i}ms\n" for i in range(999)
        ),
    }
    return {name: text * (LENGTHS[-1] // len(text) + 1) for name, text in kinds.items()}


def cost(run: Callable[[], object], least: float = 0.05) -> float:
    """Microseconds of processor time of one run: the best of five, each of some length."""
    rounds = 1
    while True:
        begin = time.process_time()
        for _ in range(rounds):
            run()
        if (took := time.process_time() - begin) >= least:
            break
        rounds *= 4
    best = took
    for _ in range(4):
        begin = time.process_time()
        for _ in range(rounds):
            run()
        best = min(best, time.process_time() - begin)
    return best / rounds * 1e6


def measure(longest: int) -> None:
    from cognition import UserSpoke
    from interpreters.recording.redaction import Redaction
    from interpreters.recording.redactor import Redactor

    def hide(redactor: Redactor, told: Sequence[UserSpoke]) -> None:
        for one in told:
            redactor.hide(one)

    def hide_with_a_new_veil(told: UserSpoke) -> None:
        Redactor(Redaction(NAMED)).hide(told)

    lengths = [length for length in LENGTHS if length < longest] + [longest]
    print(f"{'us a text':28}" + "".join(f"{length:>11,}" for length in lengths) + "   ns a character")
    for label, redaction in (("", Redaction()), (", three names", Redaction(NAMED))):
        for name, text in texts().items():
            cells = []
            for length in lengths:
                told = [UserSpoke(text[i * length : (i + 1) * length]) for i in range(20 if length <= 2000 else 1)]
                cells.append(cost(partial(hide, Redactor(redaction), told)) / len(told))
            print(
                f"{name + label:28}"
                + "".join(f"{cell:11,.1f}" for cell in cells)
                + f"{cells[-1] / longest * 1000:11.1f}"
            )
    for fragment in SLOW:
        cells = []
        for length in (longest // 100, longest // 10):
            slow = UserSpoke(fragment * (length // len(fragment)))
            cells.append(cost(partial(hide_with_a_new_veil, slow), 0.01) / length * 1000)
        print(
            f"{fragment!r:28} {cells[0]:10.0f} ns a character of {longest // 100:,},"
            f" {cells[1]:6.0f} of {longest // 10:,}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, help="another checkout to measure first")
    parser.add_argument(
        "--longest", type=int, default=LENGTHS[-1], help="characters of the longest text (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.tree is not None:
        print(f"{given.tree}:")
        program = (
            f"import sys; sys.path.insert(0, {str(given.tree)!r}); sys.argv = ['x']; exec(open({__file__!r}).read())"
        )
        subprocess.run([sys.executable, "-c", f"__file__ = {__file__!r}; {program}"], check=True)
        print("here:")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    measure(given.longest)
