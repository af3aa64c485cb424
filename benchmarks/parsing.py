"""What reading a reply costs: microseconds for each token-sized chunk, at three lengths, beside mlx-lm's parser.

A reply is cut as a tokenizer would cut it (a word with the blank before it, a few signs, a marker) and fed chunk by
chunk. Figures are CPU time, the least of some rounds, so that other work on the machine counts little. Length should
not matter: the ratio says what a chunk costs at each length, over what it costs at the first.

mlx-lm (where it is installed) has a machine that tells reasoning, text and calls apart, and decodes a call's JSON once
it has ended. It is given the same chunks and markers. It does not stream arguments, mend JSON, trim white space, or see
that a marker stands in a string: the last column says how many of the reply's calls each one read.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/parsing.py`

from benchmarks.table import digits, machine, table
from cognition.parsing import HERMES, CallFinished, Parser

TOKEN = re.compile(r"</?(?:think|tool_call)>|\s?\w{1,8}|[^\w\s]{1,3}|\s+")
PROSE = "The quick brown fox, as they say, jumps over the lazy dog; then it calls it a day. "
SHORT_CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 17, "b": 23}}\n</tool_call>\n'

Reader = Callable[[list[str]], int]
"""Reads the chunks of a reply and says how many calls it found."""


def long_call(arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'Write', 'arguments': arguments})}\n</tool_call>"


REPLIES: dict[str, Callable[[int], str]] = {
    "an answer in text": lambda size: repeated(PROSE, size),
    "reasoning": lambda size: f"<think>\n{repeated(PROSE, size)}\n</think>\n\n391.",
    "one call, a long text": lambda size: long_call({"path": "a.txt", "text": repeated(PROSE, size)}),
    "one call, code with escapes": lambda size: long_call({"text": repeated('    print("a\\n", f(x)[1])\n', size)}),
    "one call, a text with markers": lambda size: long_call(
        {"text": repeated("Write <tool_call>x</tool_call>, so: ", size)}
    ),
    "one call, a long list": lambda size: long_call({"rows": [{"id": n, "name": "x"} for n in range(size // 14)]}),
    "many short calls": lambda size: repeated(SHORT_CALL, size),
}


def repeated(text: str, size: int) -> str:
    """So often that it makes about ``size`` chunks."""
    return text * max(1, round(size / len(TOKEN.findall(text))))


def read_with_cogstep(chunks: list[str]) -> int:
    parser = Parser(HERMES)
    calls = 0
    for chunk in chunks:
        for output in parser.feed(chunk):
            calls += type(output) is CallFinished
    return calls + sum(type(output) is CallFinished for output in parser.finish())


def mlx_lm_reader() -> Reader:
    """As mlx-lm's server does it, with the transitions that it makes for a Qwen3 tokenizer."""
    text_machine = importlib.import_module("mlx_lm.generate").TextStateMachine
    parse = importlib.import_module("mlx_lm.tool_parsers.json_tools").parse_tool_call
    states = text_machine(
        {
            "normal": [("<think>", "reasoning"), ("<tool_call>", "tool")],
            "reasoning": [("</think>", "normal"), ("<tool_call>", "tool")],
            "tool": [("</tool_call>", "normal")],
        }
    )

    def read(chunks: list[str]) -> int:
        state = states.make_state("normal")
        calls, call = 0, list[str]()
        for chunk in chunks:
            state, segments = text_machine.split(state, chunk)
            for name, text in segments:
                if name == "tool":
                    call.append(text)
                elif call:
                    try:
                        parse("".join(call))
                        calls += 1
                    except ValueError:
                        pass
                    call = []
        return calls

    return read


def seconds(reader: Reader, chunks: list[str]) -> tuple[float, int]:
    gc.collect()
    began = time.process_time()
    calls = reader(chunks)
    return time.process_time() - began, calls


def measured(readers: dict[str, Reader], lengths: list[int], rounds: int) -> list[list[str]]:
    rows = [["reply", "parser", *(f"{length:,} chunks" for length in lengths), "ratio", "calls"]]
    for kind, write in REPLIES.items():
        replies = [TOKEN.findall(write(length)) for length in lengths]
        best = {name: [float("inf")] * len(lengths) for name in readers}
        found = dict.fromkeys(readers, 0)
        for _ in range(rounds):
            for place, chunks in enumerate(replies):
                for name, reader in readers.items():
                    taken, found[name] = seconds(reader, chunks)
                    best[name][place] = min(best[name][place], taken / len(chunks) * 1e6)
        for name, figures in best.items():
            cells = [f"{digits(figure)} µs" for figure in figures]
            rows.append([kind, name, *cells, f"{digits(figures[-1] / figures[0])}x", f"{found[name]:,}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="1000,10000,100000", help="chunks of a reply (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the least of these counts (default: %(default)s)")
    options = parser.parse_args()
    readers: dict[str, Reader] = {"cogstep": read_with_cogstep}
    try:
        readers["mlx-lm"] = mlx_lm_reader()
    except ImportError:
        print("mlx-lm is not installed here; cogstep alone is measured. `pip install 'cogstep[mlx]'` brings it.\n")
    print(machine())
    print(table(measured(readers, [int(length) for length in options.lengths.split(",")], options.rounds)))


if __name__ == "__main__":
    main()
