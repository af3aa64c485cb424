"""The measurements, each a part of the table. A round measures all sides one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from attrs import field, frozen

from benchmarks.serving.ours import Listener, Ours, finished
from benchmarks.serving.peers import (
    Llama,
    Server,
    batched_bench,
    in_threads,
    llama_bench,
    llama_server,
)
from benchmarks.serving.workloads import TOOLS, Work, conversation, system_prompt
from benchmarks.table import digits
from cognition import AssistantMessage, Message, ModelRequest, UserMessage


@frozen
class Row:
    """One line of the table."""

    what: str
    measured: str
    """The figure of ours, with its unit."""
    beside: str
    """That of the other side."""
    ratios: tuple[float, ...]
    """One a round."""
    aim: str = ""
    """Such as ``">= 0.97"``."""

    def cells(self) -> list[str]:
        worst = max(self.ratios) if self.aim.startswith("<") else min(self.ratios)
        return [self.what, self.measured, self.beside, ratio(median(self.ratios)), ratio(worst), self.aim]


OURS = "cogstep"
HEADING = ["what", OURS, "beside it", "ratio", "worst", "aim"]


@frozen
class Bench:
    """What the parts measure with."""

    ours: Ours
    work: Work
    rounds: int
    say: Callable[[str], object]
    native: bool
    """Whether llama.cpp's own programs are there."""
    held: ExitStack
    """What is opened for several rounds or parts, and closed at the end."""
    opened: dict[str, Server] = field(factory=dict)
    run: int = field(factory=lambda: time.time_ns() % 1_000_000)
    """Part of every label, so that no prompt was there before."""

    @property
    def file(self) -> Path:
        return self.ours.file

    def label(self, *parts: object) -> str:
        return " ".join(map(str, (self.run, *parts)))

    def numbers(self, what: str, times: int = 1, *, renewed: bool = False) -> Iterator[int]:
        """The numbers of the rounds, each told as it begins; ours begins it with an empty cache.

        Args:
            what: is measured.
            times: as many rounds as of others: what is over soon scatters most, and is to be had more often.
            renewed: whether ours is loaded again for each, as programs are that run once a round.
        """
        rounds = self.rounds * times
        for number in range(rounds):
            self.say(f"{what}, round {number + 1} of {rounds}")
            if renewed:
                self.ours.renew()
            else:
                self.ours.forget()
            yield number

    def server(self) -> Server:
        """A ``llama-server`` with a slot for each agent, started at the first call."""
        if "server" not in self.opened:
            self.say("starting llama-server")
            self.opened["server"] = self.held.enter_context(
                llama_server(
                    self.file,
                    slots=self.work.agents,
                    context=min(self.work.context, 4096),
                    threads=self.ours.threads,
                    token=self.ours.token,
                )
            )
        return self.opened["server"]


class Stopwatch:
    """The seconds that a block takes."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began


@frozen
class Side:
    """One of those that do the same work."""

    name: str
    measure: Callable[[], float]
    """Does it; in tokens a second."""
    aim: str = ""
    """Of the ratio of ours to it."""


def in_turns(number: int, sides: Sequence[Side]) -> dict[str, float]:
    """What each side measures in this round. The next round begins with the next side: none always follows the same."""
    first = number % len(sides)
    return {side.name: side.measure() for side in (*sides[first:], *sides[:first])}


def ratio(value: float) -> str:
    return f"{value:.2f}" if 0.0995 <= value < 9.95 else digits(value)


def rate(value: float) -> str:
    return f"{digits(value)} tokens/s"


def milliseconds(seconds: float) -> str:
    return f"{digits(1000 * seconds)} ms"


def one_stream(bench: Bench) -> list[Row]:
    """A reply through the runtime, beside a bare loop over the same bindings, and ``llama-bench``."""
    ours, tokens = bench.ours, bench.work.reply
    sides, noted = list[Side](), list[dict[str, float]]()
    for number in bench.numbers("one stream", times=5, renewed=True):
        asked = ours.request(ours.text(bench.label("one", number), bench.work.prompt), tokens)
        sides = [
            Side(OURS, partial(_decoded_a_second, ours, asked, tokens)),
            Side("bare loop, same bindings", partial(_bare_a_second, ours, asked, tokens), ">= 0.97"),
        ]
        if bench.native:
            depth = len(ours.prompt(asked))
            native = partial(llama_bench, bench.file, tokens=tokens, depth=depth, threads=ours.threads)
            sides.append(Side("llama-bench", native, ">= 0.97"))
        noted.append(in_turns(number, sides))
    return _rates("one stream", sides, noted)


def _decoded_a_second(ours: Ours, asked: ModelRequest, tokens: int) -> float:
    return (tokens - 1) / ours.run(asked).timings.decode_seconds


def _bare_a_second(ours: Ours, asked: ModelRequest, tokens: int) -> float:
    return (tokens - 1) / ours.bare_loop(asked, tokens)


def at_once(bench: Bench) -> list[Row]:
    """As many replies at once as there are agents, whose prompts share nothing; tokens of prompts and replies."""
    work = bench.work
    sides, noted = list[Side](), list[dict[str, float]]()
    llama = Llama(bench.file, context=work.context, threads=bench.ours.threads)
    try:
        for number in bench.numbers(f"{work.agents} at once", times=4, renewed=True):
            sides = _at_once(bench, llama, number)
            noted.append(in_turns(number, sides))
    finally:
        llama.close()
    return _rates(f"{work.agents} at once", sides, noted)


def _at_once(bench: Bench, llama: Llama, number: int) -> list[Side]:
    """With prompts of this round: all sides have the same, but for the server's second one, which would know them."""
    ours, work = bench.ours, bench.work
    asked = _unlike(bench, "at once", number)
    prompts = [ours.prompt(one) for one in asked]
    others = [ours.prompt(one) for one in _unlike(bench, "streamed", number)]

    def together() -> None:
        for generation in [ours.submit(one) for one in asked]:
            finished(generation)

    def apart() -> None:
        for prompt in prompts:
            llama.reply(prompt, work.reply)

    sides = [Side(OURS, partial(_tokens_a_second, work, prompts, together))]
    if bench.native:
        server, count = bench.server(), work.agents
        streamed = [[server.body(prompt, work.reply, stream=True)] for prompt in others]
        plain = [[server.body(prompt, work.reply)] for prompt in prompts]
        length = round(sum(map(len, prompts)) / count)
        batched = partial(
            batched_bench, bench.file, prompt=length, tokens=work.reply, streams=count, threads=ours.threads
        )
        sides += [
            Side(f"llama-batched-bench -npl {count}", batched, ">= 0.95"),
            Side(
                f"llama-server -np {count}, streaming too",
                partial(_tokens_a_second, work, others, partial(server.agents, streamed)),
                ">= 1.05",
            ),
            Side(
                f"llama-server -np {count}, not streaming",
                partial(_tokens_a_second, work, prompts, partial(server.agents, plain)),
                ">= 1.05",
            ),
        ]
    one_by_one = partial(_tokens_a_second, work, prompts, apart)
    return [*sides, Side("llama_cpp.Llama, one after another", one_by_one, ">= 1.7")]


def _tokens_a_second(work: Work, prompts: Sequence[Sequence[int]], evaluate: Callable[[], object]) -> float:
    with Stopwatch() as watch:
        evaluate()
    return (sum(map(len, prompts)) + len(prompts) * work.reply) / watch.seconds


def _unlike(bench: Bench, label: str, number: int) -> list[ModelRequest]:
    """A request for each agent, whose prompts share nothing with each other nor with what was there before."""
    ours, work = bench.ours, bench.work
    texts = [ours.text(bench.label(agent, label, number), work.prompt) for agent in range(work.agents)]
    return [ours.request(text, work.reply) for text in texts]


def agents(bench: Bench) -> list[Row]:
    """The work that agents do: one system prompt and tool list, and steps of call, result and answer."""
    ours, work = bench.ours, bench.work
    own, served = list[float](), list[float]()
    for number in bench.numbers(f"{work.agents} agents, {work.steps} steps"):
        system = system_prompt(ours, work, bench.label("agents", number))
        asked = [conversation(ours, work, system, agent, work.steps) for agent in range(work.agents)]
        with Stopwatch() as watch:
            in_threads([partial(_all_of, ours, requests) for requests in asked])
        own.append(watch.seconds)
        if bench.native:
            server = bench.server()
            bodies = [[_body(ours, server, request) for request in requests] for requests in asked]
            with Stopwatch() as watch:
                server.agents(bodies)
            served.append(watch.seconds)
    if not served:
        return []
    ratios = tuple(theirs / mine for mine, theirs in zip(own, served, strict=True))
    return [
        Row(
            f"{work.agents} agents, {work.steps} steps / llama-server -np {work.agents}, its prompt cache",
            f"{digits(median(own))} s",
            f"{digits(median(served))} s",
            ratios,
            ">= 1.5",
        )
    ]


def _body(ours: Ours, server: Server, request: ModelRequest) -> bytes:
    tokens = request.options.max_tokens
    assert tokens is not None, "the length of every reply is given, so that all sides do the same work"
    return server.body(ours.prompt(request), tokens)


def tool_loop(bench: Bench) -> list[Row]:
    """Twenty steps of one agent: what is reused of what the step before left, and the time to the first token."""
    ours, work = bench.ours, bench.work
    shares, growth, against_cold = list[float](), list[float](), list[float]()
    warm: list[float] = []
    cold: list[float] = []
    for number in bench.numbers("tool loop of 20 steps"):
        system = system_prompt(ours, work, bench.label("loop", number))
        messages: list[Message] = [UserMessage("u", ours.text("begin", work.ask))]
        first: list[float] = []
        held = 0
        for step in range(20):
            done = ours.run(ours.request(messages, work.call, system=system, tools=TOOLS))
            if step:
                shares.append(done.usage.reused_tokens / held)
                first.append(done.timings.time_to_first_token or 0.0)
            held = done.usage.input_tokens + done.usage.output_tokens - 1  # the last token is not evaluated
            messages.append(AssistantMessage(f"a{step}", ours.said(work.call)))
            messages.append(UserMessage(f"r{step}", ours.text(f"result {step}", work.result)))
        fresh = system_prompt(ours, work, bench.label("cold", number))
        once = ours.run(ours.request(messages[:-2], 1, system=fresh, tools=TOOLS))
        cold.append(once.timings.time_to_first_token or 0.0)
        warm.append(median(first[-5:]))
        growth.append(median(first[-5:]) / median(first[:5]))
        against_cold.append(cold[-1] / warm[-1])
    return [
        Row(
            "tool loop, steps 2-20: reused / could be reused",
            f"{100 * min(shares):.2f} %",
            "",
            tuple(shares),
            ">= 0.99",
        ),
        Row(
            "tool loop: first token, steps 16-20 / steps 2-6",
            milliseconds(median(warm)),
            milliseconds(median(warm) / median(growth)),
            tuple(growth),
        ),
        Row(
            "tool loop: first token without a cache / step 20",
            milliseconds(median(warm)),
            milliseconds(median(cold)),
            tuple(against_cold),
        ),
    ]


def arrival(bench: Bench) -> list[Row]:
    """A long prompt comes while others stream: their longest pause, in times of one batch that holds a chunk of it."""
    ours, work = bench.ours, bench.work
    longest, chunks = list[float](), list[float]()
    for number in bench.numbers(f"{work.long} tokens arrive", times=2):
        streams = _company(bench, f"streams {number}", work.agents - 1)
        with ours.batches() as batches:
            began = time.perf_counter()
            ours.run(ours.request(ours.text(bench.label("long", number), work.long), 1))
            ended = time.perf_counter()
        for stream in streams:
            stream.stop()
        chunk = ours.backend.limits.chunk
        longest.append(max(max(stream.pauses(began, ended)) for stream in streams))
        chunks.append(median(seconds for size, seconds in batches if size > chunk / 2))
    ratios = tuple(pause / chunk for pause, chunk in zip(longest, chunks, strict=True))
    return [
        Row(
            f"{work.long} tokens arrive: longest pause of {work.agents - 1} streams / a chunk",
            milliseconds(median(longest)),
            milliseconds(median(chunks)),
            ratios,
            "<= 2",
        )
    ]


CANCELS = 8
"""In a round, at so many moments of a batch."""


def cancel(bench: Bench) -> list[Row]:
    """From the call of ``cancel`` to the ``Done``; what the others feel of it; and in the middle of a prompt."""
    ours, work = bench.ours, bench.work
    took, batch, others = list[float](), list[float](), list[float]()
    alone: list[float] = []
    chunks: list[float] = []
    for number in bench.numbers("cancel"):
        streams, spans = _company(bench, f"company {number}", work.agents - 1), list[tuple[float, float]]()
        with ours.batches() as batches:
            for again in range(CANCELS):
                victim = ours.submit(ours.request(ours.text(bench.label("victim", number, again), 32), 2000))
                for _ in range(8):
                    next(victim)
                # A batch has just begun when a token comes, and a cancel comes whenever it likes.
                time.sleep(again / CANCELS * median(seconds for size, seconds in batches if size <= work.agents))
                began = time.perf_counter()
                victim.cancel()
                list(victim)
                ended = time.perf_counter()
                took.append(ended - began)
                spans.append((began, ended))
        for stream in streams:
            stream.stop()
        others += [max(max(stream.pauses(*span)) for stream in streams) for span in spans]
        batch.append(median(seconds for size, seconds in batches if size <= work.agents))
        with ours.batches() as batches:
            victim = ours.submit(ours.request(ours.text(bench.label("prefill", number), work.long), 1))
            while len(batches) < 2:
                time.sleep(0.001)
            began = time.perf_counter()
            victim.cancel()
            list(victim)
            alone.append(time.perf_counter() - began)
        chunks.append(batches[0][1])
    return [
        Row(
            "cancel, among others: until it is over / a batch",
            milliseconds(median(took)),
            milliseconds(median(batch)),
            tuple(seconds / median(batch) for seconds in took),
            "<= 1",
        ),
        Row(
            "cancel: pause of the others / a batch",
            milliseconds(median(others)),
            milliseconds(median(batch)),
            tuple(seconds / median(batch) for seconds in others),
        ),
        Row(
            "cancel, in a prompt of its own / a batch of the prompt",
            milliseconds(median(alone)),
            milliseconds(median(chunks)),
            tuple(seconds / median(chunks) for seconds in alone),
            "<= 1",
        ),
    ]


def shared(bench: Bench) -> list[Row]:
    """Ten agents that begin with the same prompt, at once: what is evaluated, and the memory of the process."""
    ours, work = bench.ours, bench.work
    evaluated, wanted, grown = list[int](), list[int](), list[float]()
    total = common = 0
    size = ours.model.describe().weight_bytes
    for number in bench.numbers("ten agents, one prompt"):
        system = system_prompt(ours, work, bench.label("shared", number))
        asked = [ours.request(f"Agent {agent}, begin.", 8, system=system, tools=TOOLS) for agent in range(10)]
        prompts = [ours.prompt(one) for one in asked]
        total = sum(map(len, prompts))
        common = next(place for place, row in enumerate(zip(*prompts, strict=False)) if len(set(row)) > 1)
        before = resident()
        usage = [finished(one).usage for one in [ours.submit(each) for each in asked]]
        grown.append(max(0, resident() - before) / size)
        evaluated.append(sum(one.input_tokens - one.reused_tokens for one in usage))
        wanted.append(common + sum(len(prompt) - common for prompt in prompts))
    return [
        Row(
            f"ten agents, one prompt of {common} tokens: evaluated / once and the rest",
            f"{median(evaluated)} of {total}",
            f"{median(wanted)}",
            tuple(mine / least for mine, least in zip(evaluated, wanted, strict=True)),
            "<= 1",
        ),
        Row(
            "ten agents: memory that they add / the weights",
            f"{digits(median(grown) * size / 1e6)} MB",
            f"{digits(size / 1e6)} MB",
            tuple(grown),
            "<= 1",
        ),
    ]


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096
    except OSError:
        return 0


def _all_of(ours: Ours, requests: Sequence[ModelRequest]) -> None:
    for request in requests:
        assert ours.run(request).usage.output_tokens == request.options.max_tokens


def _rates(what: str, sides: Sequence[Side], noted: Sequence[Mapping[str, float]]) -> list[Row]:
    """The first side beside each other one."""
    ours, *others = sides
    own = [rates[ours.name] for rates in noted]
    rows = []
    for side in others:
        other = [rates[side.name] for rates in noted]
        ratios = tuple(mine / theirs for mine, theirs in zip(own, other, strict=True))
        rows.append(Row(f"{what} / {side.name}", rate(median(own)), rate(median(other)), ratios, side.aim))
    return rows


def _company(bench: Bench, label: str, number: int) -> list[Listener]:
    """Streams that go on until they are stopped, each with a token at least behind it."""
    ours = bench.ours
    listeners = [
        Listener(ours.submit(ours.request(ours.text(bench.label(place, label), 32), 4000))) for place in range(number)
    ]
    for listener in listeners:
        listener.begun.wait()
    return listeners
