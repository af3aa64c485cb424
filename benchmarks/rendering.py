"""What a rendering costs: in the program, and in a template's own process; and in another source tree.

    git worktree add ../before HEAD~1
    python benchmarks/rendering.py --beside ../before

Each step of an agent renders its whole conversation, with all of its tools. Measured are whole calls of
``ChatTemplate.render`` with cogstep's own template, so what is made of messages before the template sees them is
in the figures. The ways are measured in turn, round by round, so that whatever else the machine does falls on all of
them; the best round counts. Time is that on the wall, since two processes share the work. ``open`` is what a load pays
once: to compile the template, and to find out how it writes replies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/rendering.py`

from benchmarks.table import Progress, digits, machine, table

HERE, APART, THERE = "in the program, ms", "in its own process, ms", "there, ms"

MEASURE = """
import json, sys
from time import perf_counter
from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, ToolCall, ToolMessage, ToolSpec
from cognition import UserMessage
from runtime.templates.template import ChatTemplate, FALLBACK_TEMPLATE

def request(messages, tools):
    made = []
    for turn in range(messages // 4):
        call = ToolCall(f"call{turn}", "lookup", json.dumps({"query": "zebras " * 5, "limit": turn}))
        made += [
            UserMessage(f"u{turn}", "Where do zebras live, and since when? " * 4),
            AssistantMessage(f"c{turn}", calls=(call,)),
            ToolMessage(f"t{turn}", call.id, "lookup", "In Africa, mostly in the savannah. " * 12),
            AssistantMessage(f"a{turn}", "They live in Africa. " * 6),
        ]
    made.append(UserMessage("last", "And okapis?"))
    text = {"type": "string", "description": "What to look for, in plain words."}
    schema = {"type": "object", "properties": {"query": text, "limit": {"type": "integer"}}, "required": ["query"]}
    offered = [ToolSpec(f"tool_{number}", "Looks something up somewhere.", schema) for number in range(tools)]
    return ModelRequest("Be brief.", History(made), tuple(offered), GenerationOptions())

options = json.loads(sys.argv[1])
began = perf_counter()
template = ChatTemplate(FALLBACK_TEMPLATE + "{# " + sys.argv[2] + " #}", **options)
template.derivation, template.warnings
print(json.dumps(perf_counter() - began), flush=True)
for line in sys.stdin:
    messages, tools, rounds = json.loads(line)
    asked, best = request(messages, tools), 1e9
    template.render(asked)
    for _ in range(rounds):
        began = perf_counter()
        template.render(asked)
        best = min(best, perf_counter() - began)
    print(json.dumps(best), flush=True)
"""
"""A process that measures one way: it runs in either tree, so it knows nothing of this one."""


class Way:
    """A process that renders in one way, in one tree."""

    def __init__(self, tree: Path, options: dict[str, object]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", MEASURE, json.dumps(options), "a comment"],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.open = self._answer()

    def best(self, messages: int, tools: int, rounds: int) -> float:
        """Seconds of the quickest of some renderings."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps([messages, tools, rounds])}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answer(self) -> float:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process that measures has ended; what it said stands above")
        return float(json.loads(line))


def rows(ways: dict[str, Way], lengths: list[int], tools: list[int], rounds: int, say: Progress) -> Iterator[list[str]]:
    """A line for each conversation, the first one a heading."""
    names = list(ways)
    yield ["messages, tools", *names, "own process / in the program"]
    yield ["open", *(digits(1e3 * way.open) for way in ways.values()), f"{ways[APART].open / ways[HERE].open:.2f}"]
    for length in lengths:
        for offered in tools:
            best = dict.fromkeys(names, float("inf"))
            for number in range(rounds):
                say(f"{length} messages, {offered} tools: round {number + 1} of {rounds}")
                for name, way in ways.items():
                    best[name] = min(best[name], way.best(length, offered, max(3, 300 // length)))
            ratio = f"{best[APART] / best[HERE]:.2f}"
            yield [f"{length}, {offered}", *(digits(1e3 * best[name]) for name in names), ratio]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, metavar="TREE", help="another source tree, such as the commit before")
    parser.add_argument("--lengths", default="10,1000", help="messages of the conversation (default: %(default)s)")
    parser.add_argument("--tools", default="0,100", help="tools that are offered (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="of each (default: %(default)s)")
    options = parser.parse_args()
    if options.beside is not None and not (options.beside / "runtime" / "templates").is_dir():
        parser.error(f"{options.beside} is no source tree of cogstep")
    here, say = Path(__file__).resolve().parent.parent, Progress()
    began = perf_counter()
    ways: dict[str, Way] = {}
    try:
        ways[HERE] = Way(here, {"apart": False})
        ways[APART] = Way(here, {"apart": True})
        if options.beside is not None:
            ways[THERE] = Way(options.beside.resolve(), {})
        lengths, tools = (list(map(int, text.split(","))) for text in (options.lengths, options.tools))
        lines = list(rows(ways, lengths, tools, options.rounds, say))
    except KeyboardInterrupt:
        say.clear()
        return 130
    finally:
        for way in ways.values():
            way.end()
    say.clear()
    print(f"{table(lines)}\n\n{machine()}, {perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
