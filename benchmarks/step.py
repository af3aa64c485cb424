"""What the pure core costs: a step, a turn, a fold, the states of a long session, an idle session.

No model, no interpreter, nothing to install. Short and long histories are measured in turn, sample by sample, so that
whatever else the machine does falls on both: read the ratios first. Sizes are what `sys.getsizeof` says of all objects
that a state holds, each counted once; for whole agents, what `tracemalloc` counts.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from types import FunctionType, ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/step.py`

from benchmarks.peers import cogstep
from benchmarks.sessions import CONTEXT, KINDS, new_engine, turn_inputs
from benchmarks.table import Progress, digits, show, table
from cognition import AgentState, Input, fold, transitions
from interpreters import Agent, fakes
from interpreters.recording.journal import JournalReader

SHORT, LONG = 10, 10_000
"""Messages in history."""
CHUNK_TURNS = 16
"""History stores chunks of 64 messages, 16 turns of four. Samples begin at each of 16 turns in a row, so that full and
empty last chunks are met as often as in life."""
TOOL = cogstep.peer().tool
SHARED = (type, ModuleType, FunctionType)
"""What a value refers to and does not hold."""


def session_inputs(turns: int) -> list[Input]:
    return [event for turn in range(1, turns + 1) for event in turn_inputs(turn)]


def after(turns: int) -> AgentState:
    return fold(new_engine(), session_inputs(turns))


def speed(samples: int) -> str:
    """Microseconds of one step by input, and of a whole turn, on a short and on a long history."""
    engine = new_engine()
    turns = {SHORT: [SHORT // 4] * CHUNK_TURNS, LONG: [LONG // 4 - back for back in range(1, CHUNK_TURNS + 1)]}
    starts = {length: [(after(taken), turn_inputs(taken + 1)) for taken in turns[length]] for length in turns}
    times: dict[int, list[list[float]]] = {length: [[] for _ in KINDS] for length in turns}
    for number in range(samples):
        for length, sessions in starts.items():
            state, events = sessions[number % CHUNK_TURNS]
            for place, event in enumerate(events):
                began = perf_counter()
                transition = engine.step(state, event)
                times[length][place].append(1e6 * (perf_counter() - began))
                state = transition.next_state
    lines = [["microseconds (median)", f"@{SHORT} messages", f"@{LONG} messages", "ratio", "goal"]]
    lines += [_speed_line(kind, times[SHORT][place], times[LONG][place]) for place, kind in enumerate(KINDS)]
    steps = {length: [one for kind in times[length] for one in kind] for length in turns}
    lines.append(_speed_line("any input", steps[SHORT], steps[LONG], "<= 15, <= 1.2 x"))
    whole = {length: [sum(four) for four in zip(*times[length], strict=True)] for length in turns}
    lines.append(_speed_line("a whole turn", whole[SHORT], whole[LONG], "<= 80"))
    return table(lines)


def _speed_line(name: str, short: list[float], long: list[float], goal: str = "") -> list[str]:
    # The ratio of neighbours in time: each pair saw the same machine.
    ratio = median(b / a for a, b in zip(short, long, strict=True))
    return [name, digits(median(short)), digits(median(long)), f"{ratio:.2f}", goal]


def folding(turns: int) -> str:
    """Inputs a second: from memory, and from the file that a session was recorded to."""
    inputs = session_inputs(turns)
    brief = inputs[:400]
    lines = [["inputs a second", "inputs", "CPU", "goal"]]
    lines.append(["fold, a short session", str(len(brief)), _rate(lambda: fold(new_engine(), brief), len(brief)), ""])
    lines.append(["fold, a long session", str(len(inputs)), _rate(lambda: fold(new_engine(), inputs), len(inputs)), ""])
    with tempfile.TemporaryDirectory(prefix="cogstep-step-") as directory:
        path = Path(directory, "session.jsonl")
        scripted = fakes.ScriptedModel(repeat(cogstep.model), context_tokens=CONTEXT)
        with Agent(scripted, tools=[TOOL], journal=path, fsync="never") as agent:
            for turn in range(turns // 5):
                agent.run(f"What is 17 * 23? (question {turn})")
        count = turns // 5 * len(KINDS)
        lines.append(["read a journal", str(count), _rate(lambda: _read(path), count), ""])
        lines.append(
            [
                "read a journal and fold it",
                str(count),
                _rate(lambda: fold(new_engine(), _read(path)), count),
                ">= 20,000",
            ]
        )
        size = path.stat().st_size
    return table(lines) + f"\n\nThe journal has {size / count * len(KINDS):,.0f} bytes a turn of {len(KINDS)} inputs."


def _read(path: Path) -> list[Input]:
    with JournalReader(path) as reader:
        return [record.input for record in reader]


def _rate(work: Callable[[], object], count: int) -> str:
    seconds = []
    for _ in range(3):
        began = process_time()
        work()
        seconds.append(process_time() - began)
    return f"{count / median(seconds):,.0f}"


def kept_states(steps: int) -> str:
    """Bytes a step when every state between is kept alive, beyond the messages and one list of them."""
    lines = [["every state kept", "KB in all", "of it messages", "bytes a step beyond", "goal"]]
    for share in (4, 2, 1):
        inputs = session_inputs(steps // len(KINDS) // share)
        states = [transition.next_state for transition in transitions(new_engine(), inputs)]
        own = size_of(states[-1].history)
        total = size_of(*states)
        count = len(inputs)
        beyond = f"{(total - own) / count:,.0f}"
        lines.append([f"{count} steps", f"{total / 1024:,.0f}", f"{own / 1024:,.0f}", beyond, "<= 2,048"])
    return table(lines)


def idle_sessions(count: int) -> str:
    """Bytes of a session in which nothing goes on, beyond its messages."""
    lines = [["an idle session", "KB", "of it messages", "bytes beyond", "goal"]]
    for turns in (1, 10, 1000):
        state = after(turns)
        lines.append(_idle_line(f"state after {turns} turns", size_of(state), size_of(state.history), "<= 4,096"))
    gc.collect()
    tracemalloc.start()
    agents = [_talked() for _ in range(count)]
    gc.collect()
    each = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    own = size_of(agents[0].state.history)
    lines.append(_idle_line(f"an Agent after 1 turn, of {count}", each, own, ""))
    for agent in agents:
        agent.close()
    return table(lines)


def _idle_line(name: str, size: float, own: float, goal: str) -> list[str]:
    return [name, f"{size / 1024:.1f}", f"{own / 1024:.1f}", f"{size - own:,.0f}", goal]


def _talked() -> Agent:
    scripted = fakes.ScriptedModel(repeat(cogstep.model), context_tokens=CONTEXT)
    agent = Agent(scripted, tools=[TOOL])
    agent.run("What is 17 * 23?")
    scripted.requests.clear()
    return agent


def size_of(*roots: object) -> int:
    """Bytes of all that these values hold, each object once; code and classes aside."""
    seen = {id(root): root for root in roots}
    open_ends = list(seen.values())
    total = 0
    while open_ends:
        value = open_ends.pop()
        total += sys.getsizeof(value)
        for held in gc.get_referents(value):
            if id(held) not in seen and not isinstance(held, SHARED):
                seen[id(held)] = held
                open_ends.append(held)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000, help="timed turns at each length (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10_000, help="steps whose states are kept (default: %(default)s)")
    parser.add_argument("--sessions", type=int, default=1000, help="idle sessions (default: %(default)s)")
    options = parser.parse_args()
    say = Progress()
    parts: list[tuple[str, Callable[[], str]]] = [
        ("timing steps", lambda: speed(options.samples)),
        ("folding", lambda: folding(options.steps // len(KINDS))),
        ("keeping states", lambda: kept_states(options.steps)),
        ("counting idle sessions", lambda: idle_sessions(options.sessions)),
    ]
    return show(parts, say)


if __name__ == "__main__":
    sys.exit(main())
