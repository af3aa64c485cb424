"""Rows measured in rounds, side by side, and the table that comes of it."""

from __future__ import annotations

from collections import defaultdict

from attrs import define, field

from benchmarks.children import Child, ChildError, Clock, Figures, Row
from benchmarks.table import Progress, digits, table

TURNS_A_ROUND = 3
"""At least; few, since each timed turn makes the history longer. Fast rows take more (``peers/measure.py``)."""

FLOOR = Row("floor (a loop over dicts)", "floor")
STEP = Row("cogstep (engine.step only)", "cogstep", "step_only")
COGSTEP = Row("cogstep", "cogstep")
THREAD = Row("cogstep (tool on a thread)", "cogstep", "on_thread")
LOOP = Row("cogstep (asyncio)", "cogstep", "on_a_loop")
JOURNAL = Row("cogstep (journal on)", "cogstep", "recorded")
LOOP_JOURNAL = Row("cogstep (asyncio, journal on)", "cogstep", "recorded_on_a_loop")
PEERS = (
    Row("burr", "burr", distributions=("apache-burr",)),
    Row("langgraph", "langgraph", distributions=("langgraph", "langgraph-prebuilt", "langchain-core")),
    Row("llama-index-workflows", "llama_index_workflows", distributions=("llama-index-workflows",)),
    Row("openai-agents", "openai_agents", distributions=("openai-agents", "openai")),
    Row("pydantic-ai", "pydantic_ai", distributions=("pydantic-ai-slim",)),
    Row("smolagents", "smolagents", distributions=("smolagents",)),
)


@define
class Comparison:
    """The whole run: children, their figures, and who failed why."""

    rows: list[Row]
    lengths: list[int]
    say: Progress
    figures: dict[tuple[str, int], Figures] = field(factory=lambda: defaultdict(Figures))
    failures: dict[str, str] = field(factory=dict)
    versions: dict[str, str] = field(factory=dict)
    _children: dict[str, Child] = field(factory=dict)

    def run(self, turns: int) -> None:
        try:
            for row in self.rows:
                self._start(row)
            rounds = -(-turns // TURNS_A_ROUND)
            for number in range(1, rounds + 1):
                for length in self.lengths:
                    self.say(f"round {number} of {rounds}, history of {length} turns")
                    for name in list(self._children):
                        self._measure(name, length)
        finally:
            for child in self._children.values():
                child.end()

    def _start(self, row: Row) -> None:
        self.say(f"starting {row.name}")
        child = self._children[row.name] = Child(row)
        try:
            child.start()
        except ChildError as error:
            self._give_up(row.name, f"did not start: {error}")
        else:
            self.versions[row.name] = child.version

    def _measure(self, name: str, length: int) -> None:
        figures = self.figures[name, length]
        if figures.cpu and figures.reached < length:
            return  # its history had to be walked and took too long: once is enough
        try:
            figures.add(self._children[name].batch(length, TURNS_A_ROUND))
        except ChildError as error:
            self._give_up(name, f"failed at {length} turns: {error}")

    def _give_up(self, name: str, reason: str) -> None:
        self.failures[name] = reason
        self._children.pop(name).end()

    def table(self) -> str:
        first, last = self.lengths[0], self.lengths[-1]
        heading = ["", "version", *(f"CPU @{length}" for length in self.lengths), "growth"]
        heading += [f"x cogstep @{length}" for length in dict.fromkeys([first, last])]
        heading += [f"wall @{length}" for length in self.lengths]
        return table([heading, *(self._line(row, first, last) for row in self.rows if row.name in self.versions)])

    def _line(self, row: Row, first: int, last: int) -> list[str]:
        cells = {length: self.figures.get((row.name, length), Figures()) for length in self.lengths}
        line = [row.name, self.versions[row.name] if row is not FLOOR else ""]
        line += [_cell(cells[length], length, "cpu") for length in self.lengths]
        both = cells[first].cpu and cells[last].cpu
        line.append(digits(cells[last].ratio(cells[first])) if both else "-")
        for length in dict.fromkeys([first, last]):
            ours = self.figures.get((COGSTEP.name, length), Figures())
            line.append(digits(cells[length].ratio(ours)) if cells[length].cpu and ours.cpu else "-")
        return line + [_cell(cells[length], length, "wall") for length in self.lengths]


def _cell(figures: Figures, length: int, clock: Clock) -> str:
    if not figures.cpu:
        return "-"
    reached = f" (@{figures.reached})" if figures.reached < length else ""
    return digits(figures.median(clock)) + reached
