"""Scores the exported model free-running: greedy, one call after another, with the expected tool results fed back.

The model runs as it runs in the package: through `runtime.load_model`, with its template and its parser. A call counts
only if every name and every argument of every step is exact and in order; an answer only if, besides, it says every
result that the expected answer says. Refusals must call nothing and say "no tool"; small talk and tool names must match
to the letter.

"Unseen values" are arbitrary letter strings and large numbers; "unseen phrasings" are the held-out branches of
training/phrasings.py, which no training text is made from. The cases are seeded, so two runs ask the same things.
"fresh" are the requests in fresh_requests.json, written for the command line's tools by someone who had not seen the
recipe.

    python -m training.evaluate                                 # the shipped model on llama.cpp, 60 cases a cell
    python -m training.evaluate --backend mlx --cases 20
    python -m training.evaluate --no-thinking
    python -m training.evaluate --worlds cli --kinds single --show 5
    python -m training.evaluate training/runs/try/small-tools-qwen3-q8_0.gguf
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    Message,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from runtime import Done, Runtime, load_model
from training import episodes
from training.conversations import Conversation, conversation
from training.episodes import Call, Episode, assistant, tool_says, user
from training.families import CLI, canonical
from training.values import Source
from training.worlds import schema

SETS = {
    "seen": (False, False),
    "unseen values": (True, False),
    "unseen phrasings": (False, True),
    "both unseen": (True, True),
}
WORLDS = {"cli": "the command line's five tools", "numbers": "two-number functions", "mixed": "other sets of the tools"}
KINDS = ["single", "parallel", "sequence", "error told", "retry", "follow-up", "not offered", "no tool"]
KINDS += ["small talk", "tool names", "unseen tool"]
REFUSALS = ("not offered", "no tool")
VERBATIM = ("small talk", "tool names")
FRESH = Path(__file__).with_name("fresh_requests.json")
LONGEST = 260  # tokens of a reply: the longest right one has some 150

Schema = dict[str, Any]
Ask = Callable[[list[Schema] | None, list[episodes.Message]], Done]


# -------------------------------------------------------------------------------------------- through the runtime


def history(messages: list[episodes.Message]) -> History:
    """The recipe's messages as the package's: results find their calls by order."""
    out: list[Message] = []
    waiting: list[ToolCall] = []
    for i, m in enumerate(messages):
        if m["role"] == "user":
            out.append(UserMessage(f"message-{i}", m["content"]))
        elif m["role"] == "tool":
            call = waiting.pop(0)
            out.append(ToolMessage(f"message-{i}", call.id, call.name, m["content"]))
        else:
            calls = [c["function"] for c in m.get("tool_calls", [])]
            waiting = [ToolCall(f"call-{i}-{j}", c["name"], c["arguments"]) for j, c in enumerate(calls)]
            reasoning = m.get("reasoning_content", "")
            out.append(AssistantMessage(f"message-{i}", m["content"], reasoning, tuple(waiting)))
    return History(out)


def asker(runtime: Runtime, *, thinking: bool) -> Ask:
    """Asks the model for its next turn."""
    options = GenerationOptions(max_tokens=LONGEST, thinking=None if thinking else False)

    def ask(tools: list[Schema] | None, messages: list[episodes.Message]) -> Done:
        system = messages[0]["content"] if messages[0]["role"] == "system" else ""
        offered = [t["function"] for t in tools or []]
        specs = (ToolSpec(t["name"], t["description"], t["parameters"]) for t in offered)
        rest = history(messages[1:] if system else messages)
        *_, done = runtime.submit(ModelRequest(system, rest, tuple(specs), options))
        assert isinstance(done, Done)
        return done

    return ask


# ---------------------------------------------------------------------------------------------------- one episode


@dataclass
class Outcome:
    calls_right: bool
    said: str | None = None
    log: list[str] = field(default_factory=list)


def calls_of(reply: Done) -> list[Call | None]:
    """The calls of a reply; None for what can't be read or had to be mended."""
    read: list[Call | None] = [
        None if c.repairs else {"name": c.name, "arguments": json.loads(c.arguments_json)} for c in reply.calls
    ]
    return read + [None] * len(reply.malformed)


def play(
    ask: Ask, tools: list[Schema] | None, before: list[episodes.Message], episode: list[episodes.Message]
) -> Outcome:
    """Leads the model through one episode, handing it the expected tool results as long as its calls are right."""
    talk, i, log = before + episode[:1], 1, []
    while True:
        reply = ask(tools, talk)
        calls = calls_of(reply)
        log.append(f"({reply.reasoning.strip()}) {json.dumps(calls)} {reply.text.strip()}")
        expected = [c["function"] for c in episode[i].get("tool_calls", [])]
        if calls != expected:
            return Outcome(False, None, log)
        if not expected:
            return Outcome(True, reply.text.strip(), log)
        talk = [*talk, assistant(reply.reasoning, calls=tuple(expected))]
        i += 1
        while episode[i]["role"] == "tool":
            talk.append(episode[i])
            i += 1


def says(expected: str, said: str, carries: tuple[str, ...]) -> bool:
    """Whether `said` holds each line of the results that the expected answer holds."""
    return all(row in said for found in carries for row in found.split("\n") if row and row in expected)


def good(kind: str, episode: Episode, outcome: Outcome) -> bool:
    if not outcome.calls_right or outcome.said is None:
        return False
    if kind in REFUSALS:
        return "no tool" in outcome.said
    if kind in VERBATIM:
        return outcome.said == episode.answer
    return says(episode.answer, outcome.said, episode.carries)


# ------------------------------------------------------------------------------------------------------- the cases


def cases(where: str, set_name: str, kind: str, count: int) -> Iterator[Conversation]:
    """Reproducible conversations, of which the last episode is the one to be scored."""
    values, phrasings = SETS[set_name]
    s = Source.seeded(f"{where} {set_name} {kind}", unseen_values=values, unseen_phrasings=phrasings)
    made = 0
    while made < count:
        if kind == "follow-up":
            c = conversation(s, where=where, requests=s.choice([2, 3]))
            if c.episodes[-1].kind not in ("single", "parallel", "sequence"):
                continue
        else:
            place = "odd" if kind == "unseen tool" else where
            c = conversation(s, kind=kind, where=place, requests=1)
        if place_of(c, where):
            made += 1
            yield c


def place_of(c: Conversation, where: str) -> bool:
    """The command line's own cell has no system prompt: what its aims are about."""
    return where != "cli" or not c.world.system


def score(ask: Ask, where: str, set_name: str, kind: str, count: int, show: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for c in cases(where, set_name, kind, count):
        last = c.episodes[-1]
        before = c.opening + [m for e in c.episodes[:-1] for m in e.messages]
        outcome = play(ask, c.tools, before, last.messages)
        fine = good(kind, last, outcome)
        total.update(n=1, calls=outcome.calls_right, answer=fine)
        if not fine and show > 0:
            show -= 1
            print("   asked:   ", last.messages[0]["content"], [t.name for t in c.world.tools])
            print("   replied: ", "\n             ".join(outcome.log))
            print("   expected:", json.dumps(last.calls), last.answer)
    return total


def table(ask: Ask, where: str, sets: list[str], kinds: list[str], count: int, show: int) -> None:
    """Prints a Markdown table, in percent: calls exact / answer right, or one number for replies without calls."""
    print("| | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets), flush=True)
    for kind in kinds:
        if kind == "unseen tool" and where != "mixed":
            continue
        cells = []
        for name in sets:
            t = score(ask, where, name, kind, count, show)
            calls, answer = round(100 * t["calls"] / t["n"]), round(100 * t["answer"] / t["n"])
            cells.append(f"{answer}" if kind in REFUSALS + VERBATIM else f"{calls} / {answer}")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


def fresh_table(ask: Ask, show: int) -> None:
    """The same numbers for requests that someone wrote who had not seen the recipe."""
    tools = [schema(canonical(key)) for key in CLI]
    totals: dict[str, Counter[str]] = {}
    for case in json.loads(FRESH.read_text(encoding="utf-8")):
        messages = [user(case["request"])]
        for calls, results in zip(case["calls"], case["results"], strict=True):
            messages += [assistant("", calls=tuple(calls)), *map(tool_says, results)]
        outcome = play(ask, tools, [], [*messages, assistant("")])
        said = outcome.said or ""
        carried = all(found.split("\n")[0] in said for step in case["results"] for found in step)
        fine = outcome.calls_right and (carried if case["calls"] else "no tool" in said)
        totals.setdefault(case["kind"], Counter()).update(n=1, calls=outcome.calls_right, answer=fine)
        if not fine and show > 0:
            show -= 1
            print("   asked:   ", case["request"], "\n   replied: ", "\n             ".join(outcome.log))
            print("   expected:", json.dumps(case["calls"]))
    print("| fresh requests | cases | right |\n|---|---|---|")
    for kind, t in totals.items():
        calls, answer = round(100 * t["calls"] / t["n"]), round(100 * t["answer"] / t["n"])
        print(f"| {kind} | {t['n']} | {answer if kind in REFUSALS else f'{calls} / {answer}'} |", flush=True)


def multiply_alone(ask: Ask) -> str:
    """The README's example in 192 variations: one tool, other descriptions, system prompts, numbers and wordings."""
    r, right, n = random.Random(17), 0, 0
    descriptions = ("Multiply two whole numbers.", "Multiply two numbers", "Multiply a by b.", "Return a times b.", "")
    systems = (None, "You are a helpful assistant.", "You are a careful assistant. Use tools when they help.")
    asks = ("What is {a} * {b}?", "what is {a} times {b}", "Multiply {a} by {b}.", "How much is {a} x {b}?")
    declared = json.dumps(schema(canonical("multiply")))
    for description in (*descriptions, "Multiplies two integers and returns the product."):
        tool = json.loads(declared)
        tool["function"]["description"] = description
        for system in (*systems, "Answer briefly."):
            before = [{"role": "system", "content": system}] if system else []
            for a, b in ((17, 23), (r.randint(2, 99), r.randint(2, 999))):
                for wording in asks:
                    call = {"name": "multiply", "arguments": {"a": a, "b": b}}
                    episode = [user(wording.format(a=a, b=b)), assistant("", calls=(call,)), tool_says(str(a * b))]
                    outcome = play(ask, [tool], before, [*episode, assistant("")])
                    right += bool(outcome.calls_right and str(a * b) in (outcome.said or ""))
                    n += 1
    return f"multiply alone: {right} of {n}"


def main() -> None:
    p = argparse.ArgumentParser(
        prog="python -m training.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", nargs="?", help="a GGUF file or an MLX directory; without it the shipped model")
    p.add_argument("--backend", choices=["llama", "mlx"], help="for the shipped model, which is there for both")
    p.add_argument("--cases", type=int, default=60, help="of each cell")
    p.add_argument("--no-thinking", action="store_true")
    worlds = [*WORLDS, "fresh"]
    p.add_argument("--worlds", type=lambda s: s.split(","), default=worlds, help=", ".join(worlds))
    p.add_argument("--sets", type=lambda s: s.split(","), default=list(SETS), help=", ".join(SETS))
    p.add_argument("--kinds", type=lambda s: s.split(","), default=KINDS, help=", ".join(KINDS))
    p.add_argument("--show", type=int, default=0, help="failures to print for each cell")
    a = p.parse_args()
    for given, known in ((a.worlds, worlds), (a.sets, SETS), (a.kinds, KINDS)):
        if unknown := set(given) - set(known):
            p.error(f"no such thing as {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    start = time.time()
    with load_model(a.model, backend=a.backend, threads=1) as runtime:
        ask, info = asker(runtime, thinking=not a.no_thinking), runtime.describe()
        for where in a.worlds:
            if where == "fresh":
                fresh_table(ask, a.show)
                continue
            thinking = "without" if a.no_thinking else "with"
            print(f"\n{WORLDS[where]}, {thinking} thinking, {a.cases} cases a cell, {info.backend}\n")
            table(ask, where, a.sets, a.kinds, a.cases, a.show)
        print("\n" + multiply_alone(ask))
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
