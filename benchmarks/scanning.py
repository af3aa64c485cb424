"""What the short ways through a chunk of a call gain: reading a reply with each of them, over reading it without.

Most chunks of a call lie wholly within its arguments. ``skim_json``, ``skim_tags`` and ``skim_literals`` read such a
chunk without the scan that reads any; this says how much longer the same replies take when every chunk is scanned. The
two ways take turns, chunks are token-sized, and the least CPU time of all rounds counts. A short way that gains less
than 1.2x on long arguments is not worth its lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/scanning.py`

from benchmarks.parsing import PROSE, REPLIES, TOKEN, cogstep_reader, repeated
from benchmarks.table import digits, machine, table
from cognition.parsing import FormatSpec, _machine as parsing
from cognition.parsing.formats import GEMMA4, LFM2

WAYS = ("skim_json", "skim_tags", "skim_literals")
LITERALS: dict[str, tuple[FormatSpec, Callable[[int], str]]] = {
    "one pythonic call, a long text": (
        LFM2,
        lambda size: f'<|tool_call_start|>[Write(text="{repeated(PROSE, size)}")]<|tool_call_end|>',
    ),
    "one call of a named object, a long text": (
        GEMMA4,
        lambda size: f'<|tool_call>call:Write{{text:<|"|>{repeated(PROSE, size)}<|"|>}}<tool_call|>',
    ),
}


def never(*_: object) -> None:
    """Stands in for a short way: every chunk takes the scan."""


def compared(spec: FormatSpec, chunks: list[str], rounds: int) -> tuple[float, float, int]:
    """Seconds with the short way and without, and how many calls were found."""
    read, calls = cogstep_reader(spec), 0
    kept = {name: getattr(parsing, name) for name in WAYS}
    best = {"with": float("inf"), "without": float("inf")}
    for _ in range(rounds):
        for way in best:
            for name in WAYS:
                setattr(parsing, name, kept[name] if way == "with" else never)
            began = time.process_time()
            calls = read(chunks)
            best[way] = min(best[way], time.process_time() - began)
    for name, function in kept.items():
        setattr(parsing, name, function)
    return best["with"], best["without"], calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=10_000, help="chunks of a reply (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="readings in each way (default: %(default)s)")
    options = parser.parse_args()
    rows = [["reply", "skimmed", "scanned", "ratio", "calls"]]
    for kind, (spec, write) in {**REPLIES, **LITERALS}.items():
        if "call" not in kind:
            continue
        chunks = TOKEN.findall(write(options.length))
        skimmed, scanned, calls = compared(spec, chunks, options.rounds)
        costs = [f"{digits(taken / len(chunks) * 1e6)} µs" for taken in (skimmed, scanned)]
        rows.append([kind, *costs, f"{digits(scanned / skimmed)}x", f"{calls:,}"])
    print(machine())
    print(table(rows))


if __name__ == "__main__":
    main()
