"""The way of a user's message to the model: the functions of ours that it passes until its prompt is in tokens.

The README's program runs on the shipped model, without observers. A profile function (``sys.setprofile``) sees every
call in cogstep's packages until the first token of the reply, on the session's thread and on the model's. A function is
on the *way* if it takes the message in an argument (its text in an input, a request, a prompt or a list of tokens) and

- returns it, or puts it into a queue, or is the tokenizer;
- or calls such a function, and returns None or what that one returned;

and if its caller is on the way too. Others that take the message only *look* at it. The sandbox, which a template
calls, is not on the way, and a comprehension counts as a part of its function.

The first turn of a model also measures its template. The benchmark also counts how often a turn renders and tokenises.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import operator
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/walk.py`

import attrs

from benchmarks.table import machine, table
from cognition import History
from interpreters import Agent, tool
from runtime import load_model

ROOT = Path(__file__).resolve().parent.parent
OURS = tuple(f"{ROOT / package}/" for package in ("cognition", "runtime", "interpreters", "cogstep"))
TOKENIZE = ("LlamaBackend.tokenize", "MlxVocabulary.tokenize")
GOAL = 25
"""Functions on the way, at most."""
DEEPEST = 6
"""Levels of values in values at which the message is looked for."""
QUEUES = ("put", "append")
"""The built-in methods that put a value into a queue."""
PUTTING = ("SyncInterpreter._begin",)
"""Functions that put a value into a queue by assignment, which a profile function does not see."""
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
SANDBOX = "templates/_sandbox.py"
SAID = {"first": "What is 17 * 23?", "later": "What is 12 * 34?", "without a call": "Hello, my friend!"}
"""What the user says in each turn. The model calls the tool in the first two."""


@attrs.define(eq=False)
class Entered:
    """One call of a function, while it runs."""

    code: CodeType
    number: int
    """Its place in the order of calls."""
    takes: bool
    """Whether an argument has the message."""
    hands_down: bool = False
    """Whether it calls a function that hands the message on for good: to a queue or the tokenizer."""
    takes_back: bool = False
    """Whether a function that it calls returns the message."""
    puts: bool = False
    """Whether it puts anything into a queue."""
    below: list[tuple[int, CodeType]] = attrs.field(factory=list)
    """The functions that it calls and that hand the message on, with those below them."""


class Walk:
    """Watches a turn from ``Agent.run`` to the first sampled token, and counts renderings until its end."""

    def __init__(self) -> None:
        self.text = ""
        self.entries = 0
        """Calls of our functions until the first token."""
        self.order: dict[CodeType, None] = {}
        """The functions of these calls, in their order."""
        self.passing: dict[CodeType, int] = {}
        """The functions on the way, with their place in the order of calls."""
        self.taking: set[CodeType] = set()
        self.counts: dict[str, int] = {}
        self._watching = self._counting = False
        self._stacks = threading.local()
        self._tokens: list[int] = []

    def run(self, agent: Agent, text: str) -> None:
        """Run one turn and watch it."""
        self.text, self.entries, self._tokens = text, 0, []
        self.order.clear()
        self.passing.clear()
        self.taking.clear()
        self.counts = {"render": 0, "tokenize": 0, "prompt": 0}
        self._stacks.stack = []
        self._watching = self._counting = True
        sys.setprofile(self)
        try:
            agent.run(text)
        finally:
            sys.setprofile(None)
            self._watching = self._counting = False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if not self._counting:
            return
        stack: list[Entered | None] = self._stacks.__dict__.setdefault("stack", [])
        if event == "call":
            code = frame.f_code
            ours = code.co_filename.startswith(OURS)
            if ours:
                self._count(code.co_qualname)
            stack.append(self._entered(frame) if ours and self._watching else None)
            if ours and code.co_qualname.endswith("Backend.sample"):
                self._watching = False
        elif event == "return" and stack:
            left = stack.pop()
            if left is not None:
                self._left(left, next((one for one in reversed(stack) if one is not None), None), value)
        elif event == "c_call" and stack and stack[-1] is not None and value.__name__ in QUEUES:
            stack[-1].puts = True

    def _count(self, name: str) -> None:
        if name == "ChatTemplate.render":
            self.counts["render"] += 1
        elif name in TOKENIZE:
            self.counts["tokenize"] += 1
        elif name == "LocalEngine._prepare":
            self.counts["prompt"] += 1

    def _entered(self, frame: FrameType) -> Entered | None:
        code = frame.f_code
        if code.co_name in COMPREHENSIONS or code.co_filename.endswith(SANDBOX):
            return None
        self.entries += 1
        self.order.setdefault(code)
        some = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + some]
        arguments = [frame.f_locals.get(name) for name in names if name not in ("self", "cls")]
        return Entered(code, self.entries, any(map(self._has, arguments)), puts=code.co_qualname in PUTTING)

    def _left(self, left: Entered, caller: Entered | None, value: Any) -> None:
        name = left.code.co_qualname
        if left.takes:
            self.taking.add(left.code)
        if left.takes and name in TOKENIZE:
            self._tokens, left.hands_down = value, True
        if left.takes and value is None and left.puts:
            left.hands_down = True
        returns = left.takes and self._has(value)
        if not (left.hands_down or returns or (left.takes_back and value is None)):
            return
        below = [(left.number, left.code), *left.below]
        if caller is None:
            for number, code in below:
                self.passing[code] = min(number, self.passing.get(code, number))
            return
        caller.below += below
        caller.hands_down |= left.hands_down
        caller.takes_back |= returns or value is None

    def _has(self, value: Any, depth: int = DEEPEST) -> bool:
        """Whether a value contains the message."""
        if isinstance(value, str):
            return self.text in value
        if depth == 0 or value is None or isinstance(value, int | float | bytes | type):
            return False
        if isinstance(value, list) and self._tokens and len(value) >= len(self._tokens) and type(value[0]) is int:
            return value[-len(self._tokens) :] == self._tokens
        return any(self._has(item, depth - 1) for item in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """Yield the values in a value, as far as plain data and calls to be made are concerned."""
    if isinstance(value, History):
        yield from value[-2:]  # the newest: it would be in each request otherwise
    elif isinstance(value, list | tuple):
        yield from value[-8:]
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, functools.partial):
        yield from (*value.args, *value.keywords.values())
    elif isinstance(value, operator.methodcaller):
        yield from value.__reduce__()[1]
        keywords = getattr(value.__reduce__()[0], "keywords", None)
        yield keywords
    elif inspect.isfunction(value):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _filled(cell))
    elif attrs.has(type(value)):
        yield from (getattr(value, field.name, None) for field in attrs.fields(type(value)))


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents  # an empty cell raises
    except ValueError:
        return False
    return True


def shown(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(ROOT)}  {code.co_qualname}"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def files(codes: Sequence[CodeType]) -> int:
    return len({code.co_filename for code in codes})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("llama", "mlx"), default="llama", help="(default: %(default)s)")
    parser.add_argument("--looking", action="store_true", help="also list the functions that only look at the message")
    options = parser.parse_args()
    walk, rows = Walk(), [["turn", "functions on the way", "in files", "only look", "all entered", "calls"]]
    renderings = [["turn", "model calls", "renderings", "tokenisations"]]
    ways: dict[str, list[CodeType]] = {}
    looking: dict[str, list[CodeType]] = {}
    threading.setprofile(walk)
    with load_model(backend=options.backend) as model, Agent(model, tools=[multiply]) as agent:
        for turn, text in SAID.items():
            walk.run(agent, text)
            way = sorted(walk.passing, key=walk.passing.__getitem__)
            look = [code for code in walk.order if code in walk.taking and code not in walk.passing]
            ways[turn], looking[turn] = way, look
            row = [turn, len(way), files(way), len(look), len(walk.order), walk.entries]
            rows.append([str(cell) for cell in row])
            counts = walk.counts
            renderings.append([turn, *(str(counts[name]) for name in ("prompt", "render", "tokenize"))])
    threading.setprofile(None)
    print("The way of a later message, in order:\n")
    for number, code in enumerate(ways["later"], 1):
        print(f"{number:3}  {shown(code)}")
    if options.looking:
        print("\nThese only look at it:\n")
        for code in looking["later"]:
            print(f"     {shown(code)}")
    print(
        f"\n{table(rows)}\n\ngoal: at most {GOAL} on the way of a later message\n\n{table(renderings)}\n\n{machine()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
