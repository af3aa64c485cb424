"""What reading a reply costs: microseconds for each token-sized chunk, at three lengths, beside other parsers.

A reply is cut as a tokenizer would cut it (a word with the blank before it, a few signs, a marker) and fed chunk by
chunk. Figures are CPU time, the least of some readings, so that other work on the machine counts little: three or more,
and of a short reply so many as take half a second, since the first ones find nothing in the processor's caches.
Length should not matter: the ratio says what a chunk costs at the greatest length, over what it costs at the first.
The second table says the same of replies that come as one chunk, for each of their calls.

Others are measured where they are installed; the last column says how many of the reply's calls each one read.

- mlx-lm has a machine that tells reasoning, text and calls apart, and decodes a call once it has ended. It is given the
  same chunks and markers. It does not stream arguments, mend JSON, trim white space, or see that a marker stands in a
  string.
- vLLM's parser of this format (``hermes``) streams arguments by reading the whole reply again at each chunk, so it is
  left out where that would take too long; reasoning is another parser's. Its newer engine, a state machine, reads the
  format of Qwen3-Coder; it is measured alone, without the messages that a server makes of its events, and given no
  token ids. To have it measured: ``python -m venv V && V/bin/pip install vllm attrs cattrs && V/bin/python
  benchmarks/parsing.py``.
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
from cognition.parsing import HERMES, CallFinished, FormatSpec, Parser
from cognition.parsing.formats import MISTRAL, QWEN3_CODER, TOOL_CALLS_LIST

TOKEN = re.compile(r"</?(?:think|tool_call|function|parameter)>|\s?\w{1,8}|[^\w\s]{1,3}|\s+")
PROSE = "The quick brown fox, as they say, jumps over the lazy dog; then it calls it a day. "
SHORT_CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 17, "b": 23}}\n</tool_call>\n'
SHORT_TAGGED = (
    "<tool_call>\n<function=multiply>\n<parameter=a>\n17\n</parameter>\n<parameter=b>\n23\n</parameter>\n</function>\n"
    "</tool_call>\n"
)
ENOUGH = 0.5
"""Seconds for which a reply is read over and over."""
LONGEST = 20.0
"""Seconds that one reading may take, if its cost grew with the square of the length."""

Reader = Callable[[list[str]], int]
"""Reads the chunks of a reply and says how many calls it found."""


def long_call(arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'Write', 'arguments': arguments})}\n</tool_call>"


def long_tagged(text: str) -> str:
    return f"<tool_call>\n<function=Write>\n<parameter=text>\n{text}\n</parameter>\n</function>\n</tool_call>"


REPLIES: dict[str, tuple[FormatSpec, Callable[[int], str]]] = {
    "an answer in text": (HERMES, lambda size: repeated(PROSE, size)),
    "reasoning": (HERMES, lambda size: f"<think>\n{repeated(PROSE, size)}\n</think>\n\n391."),
    "one call, a long text": (HERMES, lambda size: long_call({"path": "a.txt", "text": repeated(PROSE, size)})),
    "one call, code with escapes": (
        HERMES,
        lambda size: long_call({"text": repeated('    print("a\\n", f(x)[1])\n', size)}),
    ),
    "one call, a text with markers": (
        HERMES,
        lambda size: long_call({"text": repeated("Write <tool_call>x</tool_call>, so: ", size)}),
    ),
    "one call, a long list": (
        HERMES,
        lambda size: long_call({"rows": [{"id": n, "name": "x"} for n in range(size // 14)]}),
    ),
    "many short calls": (HERMES, lambda size: repeated(SHORT_CALL, size)),
    "one call in tags, a long text": (QWEN3_CODER, lambda size: long_tagged(repeated(PROSE, size))),
    "many short calls in tags": (QWEN3_CODER, lambda size: repeated(SHORT_TAGGED, size)),
}


CALL = '{"name": "multiply", "arguments": {"a": 17, "b": 23}}'
AT_ONCE: dict[str, tuple[FormatSpec, Callable[[int], str]]] = {
    "calls in tags": (HERMES, lambda count: SHORT_CALL * count),
    "calls in a list": (TOOL_CALLS_LIST, lambda count: f"<tool_calls>[{', '.join([CALL] * count)}]</tool_calls>"),
    "names and arguments": (MISTRAL, lambda count: '[TOOL_CALLS]multiply[ARGS]{"a": 17, "b": 23}' * count),
    "calls with tagged parameters": (QWEN3_CODER, lambda count: SHORT_TAGGED * count),
}
"""Replies that are read whole, by how many calls they hold."""


def repeated(text: str, size: int) -> str:
    """So often that it makes about ``size`` chunks."""
    return text * max(1, round(size / len(TOKEN.findall(text))))


# -------------------------------------------------------------------------------------------------------------- readers


def cogstep_reader(spec: FormatSpec) -> Reader:
    def read(chunks: list[str]) -> int:
        parser = Parser(spec)
        calls = 0
        for chunk in chunks:
            for output in parser.feed(chunk):
                calls += type(output) is CallFinished
        return calls + sum(type(output) is CallFinished for output in parser.finish())

    return read


def mlx_lm_reader(spec: FormatSpec) -> Reader:
    """As mlx-lm's server does it, with the transitions that it makes for a Qwen3 tokenizer."""
    text_machine = importlib.import_module("mlx_lm.generate").TextStateMachine
    module = "json_tools" if spec is HERMES else "qwen3_coder"
    parse = importlib.import_module(f"mlx_lm.tool_parsers.{module}").parse_tool_call
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
        for chunk in [*chunks, "\n"]:
            state, segments = text_machine.split(state, chunk)
            for name, text in segments:
                if name == "tool":
                    call.append(text)
                elif call:
                    try:
                        parse("".join(call), None)
                        calls += 1
                    except ValueError:
                        pass
                    call = []
        return calls

    return read


class _VllmTokenizer:
    """All that vLLM's parsers of these formats ask of one."""

    def get_vocab(self) -> dict[str, int]:
        return {"<tool_call>": 1, "</tool_call>": 2, "<think>": 3, "</think>": 4}


def vllm_reader(spec: FormatSpec) -> Reader:
    """What vLLM streams with: its ``hermes`` parser, or its engine for what Qwen3-Coder writes."""
    if spec is HERMES:
        hermes = importlib.import_module("vllm.tool_parsers.hermes_tool_parser").Hermes2ProToolParser

        def read(chunks: list[str]) -> int:
            parser, text, names = hermes(_VllmTokenizer()), "", 0
            for chunk in chunks:
                before, text = text, text + chunk
                delta = parser.extract_tool_calls_streaming(before, text, chunk, (), (), (), None)
                for call in delta.tool_calls if delta is not None else ():
                    names += bool(call.function and call.function.name)
            return names

        return read
    engine = importlib.import_module("vllm.parser.engine.streaming_parser_engine").StreamingParserEngine
    config = importlib.import_module("vllm.parser.qwen3").qwen3_config(thinking=False)
    ended = importlib.import_module("vllm.parser.engine.events").EventType.TOOL_CALL_END

    def read_by_engine(chunks: list[str]) -> int:
        machine = engine(config, None)
        calls = 0
        for chunk in chunks:
            for event in machine.feed(chunk, ()):
                calls += event.type is ended
        return calls + sum(event.type is ended for event in machine.finish())

    return read_by_engine


READERS: dict[str, Callable[[FormatSpec], Reader]] = {
    "cogstep": cogstep_reader,
    "mlx-lm": mlx_lm_reader,
    "vLLM": vllm_reader,
}

# ------------------------------------------------------------------------------------------------------------ measuring


def seconds(reader: Reader, chunks: list[str], rounds: int) -> tuple[float, int]:
    """The least that it took to read a reply, in so many rounds or more, and how many calls were found."""
    gc.collect()
    taken, calls = list[float](), 0
    while len(taken) < rounds or sum(taken) < ENOUGH:
        began = time.process_time()
        calls = reader(chunks)
        taken.append(time.process_time() - began)
    return min(taken), calls


def measured(names: list[str], lengths: list[int], rounds: int) -> list[list[str]]:
    rows = [["reply", "parser", *(f"{length:,} chunks" for length in lengths), "ratio", "calls"]]
    for kind, (spec, write) in REPLIES.items():
        replies = [TOKEN.findall(write(length)) for length in lengths]
        for name in names:
            reader, found, best = READERS[name](spec), 0, list[float]()
            for place, chunks in enumerate(replies):
                if place and best[-1] * (len(chunks) / len(replies[place - 1])) ** 2 > LONGEST:
                    break
                least, found = seconds(reader, chunks, rounds)
                best.append(least)
            costs = [taken / len(chunks) * 1e6 for taken, chunks in zip(best, replies, strict=False)]
            cells = [f"{digits(cost)} µs" for cost in costs] + ["too long"] * (len(lengths) - len(costs))
            rows.append([kind, name, *cells, f"{digits(costs[-1] / costs[0])}x", f"{found:,}"])
    return rows


def measured_at_once(counts: list[int], rounds: int) -> list[list[str]]:
    rows = [["reply in one chunk", *(f"{count:,} calls" for count in counts), "ratio", "calls"]]
    for kind, (spec, write) in AT_ONCE.items():
        read = [seconds(cogstep_reader(spec), [write(count)], rounds) for count in counts]
        costs = [taken / count * 1e6 for (taken, _), count in zip(read, counts, strict=True)]
        cells = [f"{digits(cost)} µs" for cost in costs]
        rows.append([kind, *cells, f"{digits(costs[-1] / costs[0])}x", f"{read[-1][1]:,}"])
    return rows


def importable(name: str) -> bool:
    try:
        for spec in (HERMES, QWEN3_CODER):
            READERS[name](spec)
    except ImportError as error:
        print(f"{name} is left out: {error}")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="1000,10000,100000", help="chunks of a reply (default: %(default)s)")
    parser.add_argument(
        "--calls", default="1000,4000,16000", help="calls of a reply that comes as one chunk (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="readings at least, of which the least counts (default: %(default)s)"
    )
    options = parser.parse_args()
    names = [name for name in READERS if importable(name)]
    print(machine())
    print(table(measured(names, [int(length) for length in options.lengths.split(",")], options.rounds)))
    print(table(measured_at_once([int(count) for count in options.calls.split(",")], options.rounds)))


if __name__ == "__main__":
    main()
