"""Many agents on one MLX model: this library in process, beside ``mlx_lm.server`` over loopback and one after another.

    python benchmarks/mlx_server.py
    python benchmarks/mlx_server.py --rounds 1 --agents 4 --reply 8 --system 60

The model has random weights in Qwen3's shape, 0.1 billion parameters in 16 bits, and runs exactly as a trained one
does. All sides get the same messages and say as many tokens, greedily; the server is asked without streaming, and its
own prompt cache is on, as it is by default. Every round takes all sides in turns, on prompts that nobody has seen; the
table gives the median of the rounds' ratios and the worst, of wall clock and of the CPU time of the process that holds
the model. On a machine with other work the second says more: both sides compute on one core most of the time.

*At once*: agents whose prompts share nothing, beside the server, and beside the same runtime that is asked one after
another, as one that holds one sequence has to be.
*Shared*: agents with one system prompt that begin together and go on for some steps, each a user's message and a reply.

On Linux, MLX multiplies matrices with a plain BLAS on one core: some 25 tokens a second of a prompt. So prompts are
short here, and a round takes minutes. Writing the model takes gguf and safetensors.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/mlx_server.py`

from attrs import field, frozen

from benchmarks.native_tools import started
from benchmarks.random_model import write_random_model
from benchmarks.serving.peers import PeerError, in_threads
from benchmarks.table import Progress, digits, machine, table
from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from runtime import load_model
from runtime.local.handles import LocalRuntime
from runtime.protocol.model import Done

PATIENCE = 120.0
"""Seconds within which the server has to be ready."""
WORDS = "the agent reads a file and writes what it found into the next one "
CONTEXT = 4096

Ask = Callable[[ModelRequest], tuple[int, int, str]]
"""Have one request answered: its prompt's tokens, those of them that were reused, and the reply."""


@frozen
class Work:
    """Sizes; those of prompts in words, which are a token or two each."""

    agents: int
    prompt: int
    reply: int
    """In tokens."""
    system: int
    steps: int


@frozen
class Result:
    """What a side did in one round."""

    seconds: float
    cpu: float
    """Seconds too, of all threads."""
    prompts: int
    """Tokens of all prompts."""
    reused: int


def words(label: str, number: int) -> str:
    """So many words that begin with the label, so that nothing of them is in a cache."""
    return " ".join([label, *(WORDS * (number // 8 + 1)).split()[:number]])


def request(messages: Sequence[Message], tokens: int, system: str = "") -> ModelRequest:
    return ModelRequest(system, History(tuple(messages)), (), GenerationOptions(max_tokens=tokens))


# ------------------------------------------------------------------------------------------------------------ the sides


def ours(model: LocalRuntime, asked: ModelRequest) -> tuple[int, int, str]:
    *_, done = model.submit(asked)
    assert isinstance(done, Done)
    assert done.usage.output_tokens == asked.options.max_tokens, done
    return done.usage.input_tokens, done.usage.reused_tokens, done.reasoning + done.text


@frozen
class Server:
    """An ``mlx_lm.server`` that is ready."""

    port: int
    pid: int

    def cpu(self) -> float:
        """CPU seconds of the process so far; nan where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:
            return math.nan
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, asked: ModelRequest) -> tuple[int, int, str]:
        system = [{"role": "system", "content": asked.system}] if asked.system else []
        messages = [
            {"role": "user" if isinstance(one, UserMessage) else "assistant", "content": one.text}
            for one in asked.messages
            if isinstance(one, UserMessage | AssistantMessage)
        ]
        body = {"messages": system + messages, "max_tokens": asked.options.max_tokens, "temperature": 0}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise PeerError(f"mlx_lm.server says {answer}")
        usage, message = answer["usage"], answer["choices"][0]["message"]
        assert usage["completion_tokens"] == asked.options.max_tokens, answer
        cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        return usage["prompt_tokens"], cached, (message.get("reasoning") or "") + (message.get("content") or "")

    def ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def mlx_server(model: Path) -> Iterator[Server]:
    """Until the block is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlx_lm.server", "--model", str(model), "--port", str(port)]
    with (
        TemporaryFile("w+") as log,
        started([*command, "--log-level", "WARNING"], stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        server = Server(port, process.pid)
        deadline = time.monotonic() + PATIENCE
        while not server.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise PeerError(f"mlx_lm.server did not become ready: {log.read()[-500:]}")
            time.sleep(0.1)
        yield server


# --------------------------------------------------------------------------------------------------------- measurements


@frozen
class Rounds:
    """What came of the rounds, by side."""

    results: dict[str, list[Result]] = field(factory=dict)

    def add(self, side: str, cpu: Callable[[], float], work: Callable[[], list[tuple[int, int, str]]]) -> None:
        began, used = time.perf_counter(), cpu()
        answers = work()
        seconds, used = time.perf_counter() - began, cpu() - used
        result = Result(seconds, used, sum(one for one, _, _ in answers), sum(reused for _, reused, _ in answers))
        self.results.setdefault(side, []).append(result)

    def row(self, what: str, side: str, beside: str) -> list[str]:
        mine, theirs = self.results[side], self.results[beside]
        wall = [other.seconds / one.seconds for one, other in zip(mine, theirs, strict=True)]
        cpu = [other.cpu / one.cpu for one, other in zip(mine, theirs, strict=True)]

        def times(results: list[Result]) -> str:
            return f"{digits(median(one.seconds for one in results))} {digits(median(one.cpu for one in results))}"

        def reused(results: list[Result]) -> str:
            return f"{sum(one.reused for one in results)} of {sum(one.prompts for one in results)}"

        return [
            what,
            times(mine),
            times(theirs),
            f"{digits(median(wall))} {digits(median(cpu))}",
            f"{digits(min(wall))} {digits(min(cpu))}",
            reused(mine),
            reused(theirs),
        ]


def apart(ask: Ask, asked: Sequence[ModelRequest]) -> list[tuple[int, int, str]]:
    return [ask(one) for one in asked]


def together(ask: Ask, asked: Sequence[ModelRequest]) -> list[tuple[int, int, str]]:
    answers: list[tuple[int, int, str]] = []

    def one(request: ModelRequest) -> None:
        answers.append(ask(request))

    in_threads([partial(one, request) for request in asked])
    return answers


def conversations(ask: Ask, work: Work, label: str) -> list[tuple[int, int, str]]:
    """Agents with one system prompt; what each says comes back in its next prompt."""
    system = words(f"system {label}", work.system)
    answers: list[tuple[int, int, str]] = []

    def converse(agent: int) -> None:
        messages: list[Message] = []
        for step in range(work.steps):
            messages.append(UserMessage(f"u{step}", words(f"agent {agent} step {step}", work.prompt // 2)))
            answers.append(ask(request(messages, work.reply, system)))
            # Plain words instead of what was said: random weights say things that no template writes as they were.
            messages.append(AssistantMessage(f"a{step}", words(f"said {step}", work.reply // 2)))

    in_threads([partial(converse, agent) for agent in range(work.agents)])
    return answers


def measure(model: LocalRuntime, server: Server, work: Work, rounds: int, say: Progress) -> list[list[str]]:
    """The rows of the table."""
    mine = partial(ours, model)
    once, shared = Rounds(), Rounds()

    def asked(label: str) -> list[ModelRequest]:
        texts = [words(f"{agent} {label}", work.prompt) for agent in range(work.agents)]
        return [request([UserMessage("m1", text)], work.reply) for text in texts]

    for ask in (mine, server.ask):  # what happens once
        ask(request([UserMessage("m1", "warm up")], 2))
    for number in range(rounds):
        place = f"round {number + 1} of {rounds}"
        for side, ask, cpu in (("ours", mine, time.process_time), ("server", server.ask, server.cpu)):
            say(f"{work.agents} at once, {place}: {side}")
            once.add(side, cpu, partial(together, ask, asked(f"once {number}")))
            say(f"{work.agents} share a prompt, {place}: {side}")
            shared.add(side, cpu, partial(conversations, ask, work, str(number)))
        say(f"one after another, {place}")
        once.add("apart", time.process_time, partial(apart, mine, asked(f"apart {number}")))
    return [
        ["what (seconds: wall, CPU)", "cogstep", "beside it", "ratios (median)", "worst", "reused", "beside it"],
        once.row(f"{work.agents} at once / mlx_lm.server", "ours", "server"),
        once.row(f"{work.agents} at once / one after another", "ours", "apart"),
        shared.row(f"{work.agents} agents, one system prompt, {work.steps} steps / mlx_lm.server", "ours", "server"),
    ]


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3, help="of each comparison (default: 3)")
    options.add_argument("--agents", type=int, default=8, help="at once (default: 8)")
    options.add_argument("--prompt", type=int, default=16, help="words of each agent's own prompt (default: 16)")
    options.add_argument("--reply", type=int, default=16, help="tokens of each reply (default: 16)")
    options.add_argument("--system", type=int, default=100, help="words of the shared prompt (default: 100)")
    options.add_argument("--steps", type=int, default=2, help="of each agent that shares it (default: 2)")
    options.add_argument("--model", type=Path, help="an MLX directory instead of the random model")
    chosen = options.parse_args()
    work = Work(chosen.agents, chosen.prompt, chosen.reply, chosen.system, chosen.steps)
    say = Progress()
    with tempfile.TemporaryDirectory() as folder:
        say("preparing the model and the server")
        path = chosen.model or write_random_model(Path(folder))[1]
        with mlx_server(path) as server, load_model(path, backend="mlx", context_tokens=CONTEXT) as model:
            rows = measure(model, server, work, chosen.rounds, say)
    say.clear()
    print(table(rows))
    print(machine())


if __name__ == "__main__":
    main()
