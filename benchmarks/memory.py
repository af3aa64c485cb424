"""What a memory of 20,000 passages costs: searches, one more note, an edited file, the index made anew.

Nothing to install, no model. The words of the passages are drawn as they are in texts (the n-th most frequent 1/n as
often as the first), a part of them is Chinese; the files are those of a year. Each kind of search is timed for queries
of its own, in turn with the others. The goal is a median of 10 ms a search.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/memory.py`

from benchmarks.table import Progress, digits, machine, table
from runtime import MemoryFolder

GOAL = 10
"""Milliseconds, the median."""

TODAY = date(2026, 11, 25)
LENGTH = 80
"""Words of a passage."""

WORDS = [
    f"{a}{b}{c}"
    for a in ("", "pre", "un", "over")
    for b in ("plan", "report", "ship", "test", "note")
    for c in range(1000)
]
WEIGHTS = list(accumulate(1 / (place + 1) for place in range(len(WORDS))))
CHINESE = "明天下午开会讨论预算报告客户项目部署测试失败成功服务器数据库密码地址"


def passage(chance: random.Random) -> str:
    """A passage, every tenth of them Chinese."""
    if chance.random() < 0.1:
        return "".join(chance.choices(CHINESE, k=2 * LENGTH))
    return " ".join(chance.choices(WORDS, cum_weights=WEIGHTS, k=LENGTH))


def fill(folder: Path, passages: int, chance: random.Random) -> None:
    """Write the files of a year, as people and sessions would have: half of it episodes, a third knowledge."""
    days = [str(TODAY - timedelta(days=back)) for back in range(365)]
    for source, names, part in (
        ("episodes", days, 6),
        ("knowledge", [f"topic-{number}" for number in range(40)], 4),
        ("outcomes", days, 2),
    ):
        (folder / source).mkdir()
        each = passages * part // 12
        for place, name in enumerate(names):
            count = each * (place + 1) // len(names) - each * place // len(names)
            day = name if source != "knowledge" else chance.choice(days)
            text = "".join(f"\n## {day} {n % 24:02}:{n % 60:02}\n\n{passage(chance)}\n" for n in range(count))
            (folder / source / f"{name}.md").write_text(f"# {name}\n{text}")


def common(chance: random.Random) -> str:
    return chance.choice(WORDS[:3])


def rare(chance: random.Random) -> str:
    return chance.choice(WORDS[2000:])


def sentence(chance: random.Random) -> str:
    return "What did we say about the " + " ".join(chance.choices(WORDS, cum_weights=WEIGHTS, k=8)) + "?"


def chinese(chance: random.Random) -> str:
    return "".join(chance.choices(CHINESE, k=6))


def character(chance: random.Random) -> str:
    return chance.choice(CHINESE)


def searches(memory: MemoryFolder) -> Mapping[str, tuple[Callable[[random.Random], str], Callable[[str], object]]]:
    """Each kind of search: a query, and what is done with it."""
    return {
        "a rare word": (rare, memory.search),
        "a word of most passages": (common, memory.search),
        "a question of eight words": (sentence, memory.search),
        "six Chinese characters": (chinese, memory.search),
        "one Chinese character": (character, memory.search),
        "a question, in one source": (sentence, lambda query: memory.search(query, sources=("knowledge",))),
        "a question, of one month": (sentence, lambda query: memory.search(query, after="2026-10-25")),
        "a question, as a model asks": (sentence, memory.recall),
    }


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds, and those of the processor: where others are at work on the machine, the second says more."""
    began, used = perf_counter(), process_time()
    act()
    return 1e3 * (perf_counter() - began), 1e3 * (process_time() - used)


def once(taken: tuple[float, float]) -> list[str]:
    return [digits(taken[0]), "", digits(taken[1]), ""]


def lines(folder: Path, rounds: int, chance: random.Random, say: Progress) -> Iterator[list[str]]:
    """A line for each thing that was timed."""
    with MemoryFolder(folder, now=lambda: datetime(2026, 11, 25, 12)) as memory:
        say("making the index")
        made = timed(memory.rebuild)
        times: dict[str, list[tuple[float, float]]] = {}
        for number in range(rounds):
            say(f"searching, round {number + 1} of {rounds}")
            for name, (query, search) in searches(memory).items():
                text = query(chance)
                times.setdefault(name, []).append(timed(lambda search=search, text=text: search(text)))  # type: ignore[misc]
            note = passage(chance)
            times.setdefault("remembering a note", []).append(timed(lambda note=note: memory.remember(note, "topic-1")))  # type: ignore[misc]
            word = rare(chance)
            times.setdefault("the search after it", []).append(timed(lambda word=word: memory.search(word)))  # type: ignore[misc]
        say.clear()
        for name, each in times.items():
            goal = f"<= {GOAL}" if name.startswith(("a ", "six", "one")) else ""
            whole, used = zip(*each, strict=True)
            yield [name, digits(median(whole)), digits(quantiles(whole, n=20)[18]), digits(median(used)), goal]
        edited = folder / "knowledge" / "topic-3.md"
        edited.write_text(edited.read_text().replace(" ", "  ", 1) + "\nOne more line.\n")
        yield ["the search after a file was edited", *once(timed(lambda: memory.search(rare(chance))))]
        yield ["making the index anew", *once(made)]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=20_000, help="in the memory (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=50, help="of one search of each kind (default: %(default)s)")
    options = parser.parse_args()
    chance, say = random.Random(17), Progress()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        say("writing the files")
        fill(folder, options.passages, chance)
        header = [f"milliseconds at {options.passages:,} passages", "median", "95th of 100", "processor", "goal"]
        print(table([header, *lines(folder, options.rounds, chance, say)]))
    print(f"\n{machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
