"""What it costs to keep a conversation within a small context, and how much of each prompt can be reused.

No model, nothing to install. Sessions are driven by hand through ``LLMEngine``: each model call is answered at once,
each tool gives a text of ``--result`` characters. Times are those of the processor, so that other work on the machine
counts little.

- **Assembling**: milliseconds of the step in which a message of the user's brings 100 candidates for sections, in a
  conversation of 1,000 messages; beside it the same step without candidates. ``seen before``: the candidates are those
  of the messages before. ``cold``: the texts are new with each message, all of their words too, and nothing is cached.
- **A long session**: microseconds of one step after 100 and after 3,000 turns of a session in 4,096 tokens, each with a
  tool loop, measured in turns. The window moves all the time, so that this is where a price that grows would show.
- **Reuse**: a tool loop of 20 and of 40 steps in the same context, with results of several lengths. Each prompt is
  rendered by the shipped model's chat template and compared with the one before it. What can be reused is what both
  have ``in common``: the system prompt, the tools and the messages that stand in both unchanged, at whatever place.
  What both begin with is what a runtime does reuse; the share is that of all prompts together, ``worst`` that of the
  one prompt that keeps the least. What is new in a prompt, or went from it, counts for neither. Both are counted in
  characters. Prompts that ask for a summary count for ``evaluated`` alone: the characters of all prompts behind what
  each begins with like the one before, which a runtime evaluates. In edition 1 a summary had a prompt of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from random import Random
from statistics import median
from time import thread_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/context.py`

from attrs import evolve, frozen

from benchmarks.table import Progress, digits, show, table
from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CallTool,
    Candidate,
    ContextAssembled,
    ContextChosen,
    Decision,
    Input,
    Limits,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    ToolReturned,
    TurnFinished,
    UserSpoke,
)
from cognition.context._stemmer import stem_of
from cognition.context.relevance import words_in
from cognition.values.outcomes import Completed
from interpreters.toolbox import standard_tools

CONTEXT = 4096
"""Tokens, prompt and reply together: the smallest context that people run agents in."""
TOOLS = tuple(tool.spec for tool in standard_tools("."))
"""What a session on the command line is offered, so that the prompt's beginning has its usual size."""
SYSTEM = "You look things up and answer with what you have found. " * 4
MESSAGE = "<|im_start|>"
"""What each message begins with, as the shipped model's template writes it."""
ROUNDS, TURNS = 20, 10
"""How often the early and the late session go on, and for how many turns each time."""
SUMMARY = "Task: look everything up. Progress: half of it is found. Remaining: the rest. " * 4
"""What is said where a summary is asked for: about 80 tokens, as a good one has."""


@frozen
class Step:
    """One step of a driven session."""

    event: Input
    microseconds: float
    state: AgentState
    requests: tuple[CallModel, ...]
    report: ContextAssembled | None


def engine(steps: int, **options: object) -> LLMEngine:
    """An agent for turns of up to ``steps`` model calls in a small context."""
    limits = Limits(steps=2 * steps + 2, tool_calls=None)
    return LLMEngine(AgentConfig(SYSTEM, TOOLS, limits=limits, context_tokens=CONTEXT, **options))  # type: ignore[arg-type]


def turn(logic: LLMEngine, state: AgentState, text: str, calls: int, result: str) -> Iterator[Step]:
    """Drive one turn in which the model makes ``calls`` calls, one after another, and then answers."""
    waiting: list[Input] = [UserSpoke(text)]
    made = 0
    while waiting:
        event = waiting.pop(0)
        began = thread_time()
        transition = logic.step(state, event)
        taken = 1e6 * (thread_time() - began)
        state = transition.next_state
        report: ContextAssembled | None = None
        for decision in transition.decisions:
            match decision:
                case CallModel(effect_id=effect_id, purpose="answer") if made < calls:
                    made += 1  # never the same arguments, which would look like a loop
                    waiting.append(ModelReplied(effect_id, calls=(ProposedCall("Read", {"path": f"part{made}.txt"}),)))
                case CallModel(effect_id=effect_id, purpose=purpose):
                    waiting.append(ModelReplied(effect_id, "Found." if purpose == "answer" else SUMMARY))
                case CallTool(effect_id=effect_id, call=call):
                    waiting.append(ToolReturned(effect_id, f"{call.id}: {result}"))
                case ContextAssembled():
                    report = decision
                case TurnFinished(outcome=outcome) if not isinstance(outcome, Completed):
                    raise RuntimeError(f"a turn ended otherwise than it ought to: {outcome}")
                case _:
                    pass
        asked = tuple(one for one in transition.decisions if isinstance(one, CallModel))
        yield Step(event, taken, state, asked, report)


WORDS = (
    "river bridge winter market garden letter window silver harbour engine paper mountain signal copper forest village "
    "teacher journey blanket lantern orchard compass meadow thunder ribbon castle feather island pepper velvet anchor "
    "bakery cellar dragon ember falcon glacier hollow ivory jasmine kettle lemon marble needle opal parcel quarry raven"
).split()

SYLLABLES = "ba ke lo mi nu ra st on ing er al tion ed ly pre con de vi sa to".split()


def candidates(count: int, length: int) -> tuple[Candidate, ...]:
    """Texts for the usual sections, most of them for memory and skills, each of other words."""
    found = [Candidate("identity", "You help in a bakery.", "IDENTITY.md"), Candidate("instructions", "Be brief.")]
    for number in range(count - len(found)):
        words = [WORDS[(number * 7 + place * (number % 11 + 1)) % len(WORDS)] for place in range(length // 7)]
        section = "memory" if number % 3 else "skills"
        found.append(Candidate(section, f"{' '.join(words)}.", f"notes/{number}.md", at=float(number)))
    return tuple(found)


def strangers(count: int, length: int, seed: int) -> tuple[Candidate, ...]:
    """Texts like ``candidates``, whose words are made up: others with each seed, but for one in eight."""
    made, found = Random(seed), []
    words = ["".join(made.choices(SYLLABLES, k=made.randint(1, 4))) for _ in range(count * length // 14)]
    words += made.choices(WORDS, k=len(words) // 7)
    for candidate in candidates(count, length):
        text = " ".join(made.choices(words, k=length // 7))
        found.append(evolve(candidate, text=f"{text[: length - 1]}."))
    return tuple(found)


def assembling(count: int, messages: int, length: int, rounds: int) -> str:
    """Milliseconds of a step that assembles a prompt, and of one that has nothing to assemble."""
    logic = LLMEngine(AgentConfig(SYSTEM, TOOLS, context_tokens=32_768))
    state = AgentState()
    for number in range(messages // 4):
        for step in turn(logic, state, f"Question {number}: where is the {WORDS[number % len(WORDS)]}?", 1, "Here."):
            state = step.state
    given = candidates(count, length)
    text = "Which lantern did the teacher leave in the bakery last winter, and where is the copper compass?"
    times: dict[str, list[float]] = {"with": [], "cold": [], "without": []}
    decisions: tuple[Decision, ...] = ()
    for number in range(rounds):
        for name, context in (("with", given), ("cold", strangers(count, length, number)), ("without", ())):
            if name == "cold":
                words_in.cache_clear()
                stem_of.cache_clear()
            event = UserSpoke(f"{text} ({number})", context=context, at=1e9)  # no message is one that was seen before
            began = thread_time()
            transition = logic.step(state, event)
            times[name].append(1e3 * (thread_time() - began))
            decisions = transition.decisions if name == "with" else decisions
    (chosen,) = (one for one in decisions if isinstance(one, ContextChosen))
    fates = ", ".join(
        f"{sum(choice.fate == fate for choice in chosen.choices)} {fate.replace('_', ' ')}"
        for fate in ("included", "trimmed", "left_out")
    )
    lines = [["milliseconds a message", "median", "best", "goal"]]
    some = f"{count} candidates, {len(state.history)} messages"
    for name, what in (("with", f"{some}, seen before"), ("cold", f"{some}, cold"), ("without", "no candidates")):
        goal = "" if name == "without" else "<= 2"
        lines.append([what, digits(median(times[name])), digits(min(times[name])), goal])
    return f"{table(lines)}\n\nOf the candidates, of {length} characters each, {fates}."


def long_session(turns: int, calls: int, result: str, say: Progress) -> str:
    """Microseconds of a step by what happened, at the beginning and at the end of a long session.

    The machine may be another one an hour later; so both are kept, and go on for some turns by turns.
    """
    logic, state = engine(calls), AgentState()
    early, fullest, requests, budget = state, 0, 0, 0
    for number in range(turns):
        if number % 100 == 0:
            say.detail(f"turn {number} of {turns}")
        if number == turns // 30:
            early = state
        for step in turn(logic, state, f"Question {number}: what is it?", calls, result):
            state = step.state
            requests += len(step.requests)
            if step.report is not None:
                fullest, budget = max(fullest, step.report.tokens), step.report.budget
    times: dict[str, tuple[list[float], list[float]]] = {}
    ends = [early, state]
    for number in range(2 * ROUNDS):
        place = number % 2
        for _ in range(TURNS):
            for step in turn(logic, ends[place], f"Question {number}: what is it?", calls, result):
                ends[place] = step.state
                for kind in (type(step.event).__name__, "any input"):
                    times.setdefault(kind, ([], []))[place].append(step.microseconds)
    lines = [["microseconds a step", f"from turn {turns // 30}", f"from turn {turns}", "ratio", "goal"]]
    for kind, (first, last) in times.items():
        goal = "<= 1.2 x" if kind == "any input" else ""
        ratio = f"{median(last) / median(first):.2f}"
        lines.append([f"{kind}, median", digits(median(first)), digits(median(last)), ratio, goal])
        lines.append([f"{kind}, mean", digits(_mean(first)), digits(_mean(last)), "", ""])
    fits = f"The fullest of {requests:,} prompts has {fullest:,} of {budget:,} tokens, by the engine's estimate."
    return f"{table(lines)}\n\n{fits}"


def _mean(values: Sequence[float]) -> float:
    """Without the slowest hundredth, which is the machine's. Few steps move the window, and their price counts."""
    kept = sorted(values)[: max(1, len(values) - len(values) // 100)]
    return sum(kept) / len(kept)


def reuse(steps: Sequence[int], lengths: Sequence[int], say: Progress) -> str:
    """How much of what it has in common with the prompt before each prompt of a tool loop can be reused."""
    render = renderer()
    lines = [
        [
            "a tool loop",
            "results",
            "prompts",
            "characters",
            "in common",
            "reusable",
            "share",
            "goal",
            "worst",
            "evaluated",
            "of it for summaries",
        ]
    ]
    for name, options, goal in WAYS:
        for count, length in product(steps, lengths):
            say(f"{name}, {count} steps, results of {length} characters")
            logic = engine(count, **options)
            turns = turn(logic, AgentState(), "Look it all up.", count, text_of(length))
            calls = [(call.purpose, render(call.request)) for step in turns for call in step.requests]
            asked = [text for purpose, text in calls if purpose != "summary"]
            common, reusable, worst = 0, 0, 1.0
            for earlier, text in pairwise(asked):
                both, begin = in_common(earlier, text), _alike(earlier, text)
                common, reusable, worst = common + both, reusable + begin, min(worst, begin / both)
            new = [len(text) - _alike(earlier, text) for (_, earlier), (_, text) in pairwise([("", ""), *calls])]
            summaries = sum(one for one, (purpose, _) in zip(new, calls, strict=True) if purpose == "summary")
            evaluated = [f"{sum(new):,}", f"{summaries:,} ({summaries / sum(new):.0%})"]
            figures = (f"{one:,}" for one in (length, len(asked), sum(map(len, asked)), common, reusable))
            lines.append(
                [f"{name}, {count} steps", *figures, f"{reusable / common:.1%}", goal, f"{worst:.0%}", *evaluated]
            )
    return table(lines)


def text_of(length: int) -> str:
    """A tool's result of so many characters."""
    return ("The quick brown fox jumps over the lazy dog. " * (length // 45 + 1))[:length]


def in_common(before: str, after: str) -> int:
    """How many characters of a prompt the one before has too, wherever they stand there: those of messages that stand
    whole in both, and of what both begin with.
    """
    known = Counter(before.split(MESSAGE))
    begins, common = _alike(before, after), 0
    for part in after.split(MESSAGE):
        length = len(part) + len(MESSAGE)
        if known[part]:
            known[part] -= 1
            common += length
        else:
            common += max(0, min(begins, length))
        begins -= length
    return min(common, len(after))


WAYS: tuple[tuple[str, dict[str, object], str], ...] = (
    ("window", {}, ""),
    ("compaction", {"compact_at": 0.75}, ">= 95 %"),
    ("compaction of edition 1", {"compact_at": 0.75, "edition": 1}, ""),
)
"""How room is made: a name, the options of the configuration, and the goal."""


def renderer() -> Callable[[ModelRequest], str]:
    """Writes requests with the template of the model that ships."""
    from runtime.templates.files import find_template, open_template

    template = open_template(find_template(None))
    return lambda request: template.render(request).text


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    most = min(len(one), len(other))
    low = 0
    while low < most:  # by halves, since texts of thousands of characters are compared a thousand times
        middle = (low + most + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            most = middle - 1
    return low


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3000, help="of the long session (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=4, help="in each of its turns (default: %(default)s)")
    parser.add_argument("--result", type=int, default=1000, help="characters of a tool's result (default: %(default)s)")
    parser.add_argument("--candidates", type=int, default=100, help="that are chosen among (default: %(default)s)")
    parser.add_argument("--length", type=int, default=400, help="characters of a candidate (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=1000, help="that are there then (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=50, help="of assembling (default: %(default)s)")
    parser.add_argument("--steps", default="20,40", help="of the tool loops (default: %(default)s)")
    parser.add_argument("--results", default="300,700,2000", help="more lengths, for reuse (default: %(default)s)")
    options = parser.parse_args()
    say = Progress()
    lengths = list(dict.fromkeys([options.result, *map(int, filter(None, options.results.split(",")))]))
    parts: list[tuple[str, Callable[[], str]]] = [
        (
            "assembling",
            lambda: assembling(options.candidates, options.messages, options.length, options.rounds),
        ),
        ("a long session", lambda: long_session(options.turns, options.calls, text_of(options.result), say)),
        ("reuse", lambda: reuse([int(one) for one in options.steps.split(",")], lengths, say)),
    ]
    return show(parts, say)


if __name__ == "__main__":
    sys.exit(main())
