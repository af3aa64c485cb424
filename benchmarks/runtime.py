"""Many agents on one model: what the runtime brings, side by side with llama.cpp's own programs.

    python benchmarks/runtime.py                 # all of it
    python benchmarks/runtime.py --quick         # one round, short replies, the small model
    python benchmarks/runtime.py --only agents,cancel --models 0.1b

The models have random weights in Qwen3's shape, 0.1 and 0.6 billion parameters, and run exactly as trained ones do.
Every comparison takes both sides in turns, round by round, and gives the median of the rounds' ratios and the worst:
other work on the machine counts for both. The first run writes the models and builds llama-bench, llama-batched-bench
and llama-server from the source of the installed llama-cpp-python, which takes some minutes.

parts:
{parts}

benchmarks/README.md says how each is measured. Writing the models takes gguf.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/runtime.py`

from attrs import evolve

from benchmarks.native_tools import BuildError, prepare
from benchmarks.random_model import LARGE, SMALL, Shape, cached_model, write_random_model
from benchmarks.serving import parts
from benchmarks.serving.ours import Ours
from benchmarks.serving.parts import HEADING, Bench, Row
from benchmarks.serving.workloads import TOOLS, Work
from benchmarks.table import Progress, machine, table
from runtime import load_model

PARTS: Mapping[str, Callable[[Bench], list[Row]]] = {
    "stream": parts.one_stream,
    "at-once": parts.at_once,
    "agents": parts.agents,
    "loop": parts.tool_loop,
    "arrival": parts.arrival,
    "cancel": parts.cancel,
    "shared": parts.shared,
}

SHAPES: Mapping[str, Shape] = {shape.name: shape for shape in (SMALL, LARGE)}

MLX = "mlx"
"""The part that is a table of its own: ``benchmarks/mlx_server.py``, one round of it."""

SHORT = ("stream", "at-once")
"""What is said in conversations of one short prompt and its reply."""
SHORT_CONTEXT, LONG_CONTEXT, LARGE_CONTEXT = 512, 8192, 4096
"""Tokens that a conversation may have, on all sides: in those parts, in the others, and in these of the large model."""

OF_THE_LARGE = ("stream", "at-once", "agents")
"""What is measured with the large model too: speed beside others. The rest is about batches, which are the same."""


def description() -> str:
    """The module's docstring, with the parts filled in."""
    docs = {name: (part.__doc__ or "").strip() for name, part in PARTS.items()}
    docs[MLX] = "MLX beside mlx_lm.server; benchmarks/mlx_server.py alone has more options."
    listed = "\n".join(f"  {name:8} {doc}" for name, doc in docs.items())
    return (__doc__ or "").replace("{parts}", listed)


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=description(), formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", metavar="PART,...", help="these parts only")
    options.add_argument("--models", metavar="NAME,...", default="0.1b,0.6b", help="0.1b, 0.6b (default: both)")
    options.add_argument("--model", type=Path, metavar="FILE", help="a GGUF file instead of those")
    options.add_argument(
        "--rounds", type=int, help="of each comparison, five times as many of short ones (default: 3; large: 1)"
    )
    options.add_argument("--agents", type=int, default=8, help="at once (default: 8)")
    options.add_argument(
        "--context",
        type=int,
        metavar="N",
        help=f"tokens that a conversation may have, in every part (default: {SHORT_CONTEXT} in {' and '.join(SHORT)}, "
        f"else {LONG_CONTEXT}, of the large model {LARGE_CONTEXT})",
    )
    options.add_argument("--quick", action="store_true", help="one round, short replies, few steps, the small model")
    options.add_argument("--threads", type=int, help="of both sides (default: what the runtime takes)")
    options.add_argument("--no-native", action="store_true", help="leave out what needs llama.cpp's own programs")
    chosen = options.parse_args()
    names = chosen.only.split(",") if chosen.only else [*PARTS, *(() if chosen.quick or chosen.model else (MLX,))]
    models = ["0.1b"] if chosen.quick else chosen.models.split(",")
    for name in (*(set(names) - PARTS.keys() - {MLX}), *(set(models) - SHAPES.keys())):
        options.error(f"there is no {name!r}: parts are {', '.join((*PARTS, MLX))}, models {', '.join(SHAPES)}")
    if chosen.model is not None and not chosen.model.is_file():
        options.error(f"there is no file {chosen.model}")
    least = SHORT_CONTEXT if set(names) <= set(SHORT) else LARGE_CONTEXT
    if chosen.context is not None and chosen.context < least:
        options.error(f"--context {chosen.context} has no room for the longest conversation of these parts: {least}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended on the way out
    say = Progress()
    native = not chosen.no_native
    if native:
        try:
            prepare(say)
        except BuildError as error:
            say(f"without llama.cpp's own programs: {error}")
            native = False
    work = Work(prompt=64, reply=16, system=600, steps=2, long=1500) if chosen.quick else Work()
    work = evolve(work, agents=chosen.agents)
    began = time.perf_counter()
    for model in [str(chosen.model)] if chosen.model else models:
        large = model == LARGE.name
        say(f"{model}: preparing the model")
        file = chosen.model or cached_model(SHAPES[model])
        if large:
            work = evolve(work, steps=min(3, work.steps))
        rounds = chosen.rounds or (1 if large or chosen.quick else 3)
        wanted = [name for name in names if name != MLX and (not large or name in OF_THE_LARGE or chosen.only)]
        if not wanted:
            continue
        rows: list[Row] = []
        for context, together in (
            (chosen.context or SHORT_CONTEXT, [name for name in wanted if name in SHORT]),
            (
                chosen.context or (LARGE_CONTEXT if large else LONG_CONTEXT),
                [name for name in wanted if name not in SHORT],
            ),
        ):
            if together:
                sized = evolve(work, context=context)
                rows += measure(file, sized, rounds, together, chosen.threads, native, partial(_say, say, model))
        say.clear()
        print(
            f"\n{model}, {file.stat().st_size / 1e6:.0f} MB\n\n{table([HEADING, *(row.cells() for row in rows)])}",
            flush=True,
        )
    if MLX in names:
        beside = mlx(say)
        say.clear()
        print(f"\nMLX\n\n{table(beside)}", flush=True)
    print(f"\n{machine()}, {time.perf_counter() - began:.0f} s")
    return 0


def measure(
    file: Path,
    work: Work,
    rounds: int,
    names: list[str],
    threads: int | None,
    native: bool,
    say: Callable[[str], object],
) -> list[Row]:
    """The rows of one model."""
    say("loading")
    rows: list[Row] = []
    with ExitStack() as held:
        ours = Ours(file, context=work.context, threads=threads)
        held.callback(ours.close)
        bench = Bench(ours, work, rounds, say, native, held)
        say("warming up")
        ours.warm_up(() if work.context < work.system else TOOLS)
        for name in names:
            rows += PARTS[name](bench)
    return rows


def mlx(say: Progress) -> list[list[str]]:
    """The table of ``benchmarks/mlx_server.py``; a line instead where MLX is not installed."""
    if find_spec("mlx_lm") is None:
        return [["MLX is not installed: pip install 'cogstep[mlx]'"]]
    from benchmarks import mlx_server

    with TemporaryDirectory() as folder:
        say("mlx: preparing the model and the server")
        path = write_random_model(Path(folder))[1]
        work = mlx_server.Work(agents=8, prompt=16, reply=8, system=60, steps=2)
        with (
            mlx_server.mlx_server(path) as server,
            load_model(path, backend="mlx", context_tokens=mlx_server.CONTEXT) as model,
        ):
            return mlx_server.measure(model, server, work, 1, say)


def _say(say: Progress, model: str, text: str) -> None:
    say(f"{model}: {text}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
