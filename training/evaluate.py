"""Scores the exported model free-running: greedy, one call after another, with the expected tool results fed back.

A call counts only if every name and every argument of every step is exact and in order; an answer only if, besides, it
says every result that the expected answer says. Refusals must call nothing and say "no tool"; small talk and tool names
must match to the letter.

"Unseen values" are arbitrary letter strings and large numbers; "unseen phrasings" are the held-out branches of
training/phrasings.py, which no training text is made from. The cases are seeded, so two runs ask the same things.

    python -m training.evaluate                                 # the shipped GGUF, 60 cases a cell, with thinking
    python -m training.evaluate --no-thinking --cases 40
    python -m training.evaluate runtime/small_model/mlx         # the MLX weights
    python -m training.evaluate --worlds cli --kinds single --show 5
"""

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.conversations import Conversation, conversation, render, without_thoughts
from training.episodes import Call, Episode, Message, assistant, tool_says, user
from training.families import canonical
from training.values import Source
from training.worlds import schema

SHIPPED = Path(__file__).parent.parent / "runtime" / "small_model" / "small-tools-qwen3-q8_0.gguf"
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

Generate = Callable[[str], str]


# ------------------------------------------------------------------------------------------------------ generators


def llama(path: Path) -> Generate:
    """A greedy generator on a GGUF file."""
    import llama_cpp

    model = llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(model._model.model)

    def generate(prompt: str, limit: int = 260) -> str:
        out: list[int] = []
        ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
        if len(ids) + limit > 2048:
            return ""
        for token in model.generate(ids, temp=0.0):
            if llama_cpp.llama_vocab_is_eog(vocab, token) or len(out) >= limit:
                break
            out.append(token)
        return str(model.detokenize(out, special=True).decode("utf-8", "replace"))

    return generate


def mlx(path: Path) -> Generate:
    """A greedy generator on an MLX directory."""
    from mlx_lm import load, stream_generate
    from mlx_lm.sample_utils import make_sampler

    model, tk = load(str(path))
    greedy = make_sampler(temp=0.0)

    def generate(prompt: str, limit: int = 260) -> str:
        ids = tk.encode(prompt, add_special_tokens=False)
        return "".join(x.text for x in stream_generate(model, tk, ids, max_tokens=limit, sampler=greedy))

    return generate


def generator(path: Path) -> Generate:
    return mlx(path) if path.is_dir() else llama(path)


# ---------------------------------------------------------------------------------------------------- one episode


@dataclass
class Outcome:
    calls_right: bool
    said: str | None = None
    valid: bool = True
    log: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[list[Call | None], str]:
    """(calls, visible text); a call that is no JSON is None."""
    body = text.split("</think>")[-1]
    calls: list[Call | None] = []
    for block in re.findall(r"<tool_call>\n?(.*?)\n?</tool_call>", body, re.S):
        try:
            calls.append(json.loads(block))
        except ValueError:
            calls.append(None)
    if body.count("<tool_call>") > len(calls):
        calls.append(None)
    return calls, re.sub(r"<tool_call>.*?(</tool_call>|$)", "", body, flags=re.S).strip()


def play(
    generate: Generate,
    tools: list[dict[str, Any]] | None,
    before: list[Message],
    episode: list[Message],
    thinking: bool,
) -> Outcome:
    """Leads the model through one episode, handing it the expected tool results as long as its calls are right."""
    history, i, log = before + episode[:1], 1, []
    while True:
        text = generate(render(tools, history, prompt=True, thinking=thinking))
        calls, said = parse(text)
        log.append(text)
        expected = [c["function"] for c in episode[i].get("tool_calls", [])]
        if calls != expected:
            return Outcome(False, None, None not in calls, log)
        if not expected:
            return Outcome(True, said, True, log)
        thought = text.split("</think>")[0].split("<think>")[-1].strip("\n") if "</think>" in text else ""
        history = [*history, assistant(thought if thinking else "", calls=tuple(expected))]
        i += 1
        while episode[i]["role"] == "tool":
            history.append(episode[i])
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


def score(
    generate: Generate, where: str, set_name: str, kind: str, count: int, thinking: bool, show: int
) -> Counter[str]:
    total: Counter[str] = Counter()
    for c in cases(where, set_name, kind, count):
        last = c.episodes[-1]
        before = c.opening + [m for e in c.episodes[:-1] for m in e.messages]
        outcome = play(generate, c.tools, without_thoughts(before), last.messages, thinking)
        fine = good(kind, last, outcome)
        total.update(n=1, calls=outcome.calls_right, answer=fine, valid=outcome.valid)
        if not fine and show > 0:
            show -= 1
            print("   asked:   ", last.messages[0]["content"], [t.name for t in c.world.tools])
            print("   wrote:   ", *outcome.log, sep="\n      ")
            print("   expected:", json.dumps(last.calls), last.answer)
    return total


def table(
    generate: Generate, worlds: list[str], sets: list[str], kinds: list[str], count: int, thinking: bool, show: int
) -> None:
    """Prints a Markdown table for each world, in percent: calls exact / answer right, or one number without calls."""
    for where in worlds:
        print(f"\n{WORLDS[where]}, {'with' if thinking else 'without'} thinking, {count} cases a cell\n")
        print("| | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets), flush=True)
        for kind in kinds:
            if kind == "unseen tool" and where != "mixed":
                continue
            cells = []
            for name in sets:
                t = score(generate, where, name, kind, count, thinking, show)
                calls, answer = round(100 * t["calls"] / t["n"]), round(100 * t["answer"] / t["n"])
                cells.append(f"{answer}" if kind in REFUSALS + VERBATIM else f"{calls} / {answer}")
            print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


def multiply_alone(generate: Generate, thinking: bool) -> str:
    """The README's example in 192 variations: one tool, other descriptions, system prompts, numbers and wordings."""
    r, right, n = random.Random(17), 0, 0
    descriptions = ("Multiply two whole numbers.", "Multiply two numbers", "Multiply a by b.", "Return a times b.", "")
    systems = (None, "You are a helpful assistant.", "You are a careful assistant. Use tools when they help.")
    asks = ("What is {a} * {b}?", "what is {a} times {b}", "Multiply {a} by {b}.", "How much is {a} x {b}?")
    declared = schema(canonical("multiply"))
    for description in (*descriptions, "Multiplies two integers and returns the product."):
        for system in (*systems, "Answer briefly."):
            for a, b in ((17, 23), (r.randint(2, 99), r.randint(2, 999))):
                for ask in asks:
                    tools = [json.loads(json.dumps(declared))]
                    tools[0]["function"]["description"] = description
                    call = {"name": "multiply", "arguments": {"a": a, "b": b}}
                    episode = [user(ask.format(a=a, b=b)), assistant("", calls=(call,)), tool_says(str(a * b))]
                    episode.append(assistant("", f"{a} * {b} is {a * b}."))
                    before = [{"role": "system", "content": system}] if system else []
                    outcome = play(generate, tools, before, episode, thinking)
                    right += bool(outcome.calls_right and str(a * b) in (outcome.said or ""))
                    n += 1
    return f"multiply alone: {right} of {n}"


def main() -> None:
    p = argparse.ArgumentParser(
        prog="python -m training.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", type=Path, nargs="?", default=SHIPPED, help="a GGUF file or an MLX directory")
    p.add_argument("--cases", type=int, default=60, help="of each cell")
    p.add_argument("--no-thinking", action="store_true")
    p.add_argument("--worlds", type=lambda s: s.split(","), default=list(WORLDS), help=", ".join(WORLDS))
    p.add_argument("--sets", type=lambda s: s.split(","), default=list(SETS), help=", ".join(SETS))
    p.add_argument("--kinds", type=lambda s: s.split(","), default=KINDS, help=", ".join(KINDS))
    p.add_argument("--show", type=int, default=0, help="failures to print for each cell")
    a = p.parse_args()
    start, generate, thinking = time.time(), generator(a.model), not a.no_thinking
    table(generate, a.worlds, a.sets, a.kinds, a.cases, thinking, a.show)
    print("\n" + multiply_alone(generate, thinking))
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
