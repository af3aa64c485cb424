"""``cogstep bench`` on the shipped model: what it prints, and how it ends early."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from cognition import Failure, ModelRequest, Usage
from cognition.parsing import FormatSpec, Output
from interpreters.cli._errors import CommandError
from interpreters.cli.reports.measurements import MOST_REPLIES, Measurement, per_second, short, size
from interpreters.cli.screen.terminal import StatusLine, Terminal
from runtime import Done, ModelInfo, Timings
from tests.interpreters.cli.processes import BACKENDS, Cogstep, OnTerminal, Start

SMALL = ("--rounds", "1", "--tokens", "8", "--prompt", "64", "--sessions", "2")
"""Enough for every figure."""

NAMES = ["loading", "prefill", "decode", "first token, cold", "first token, warm", "2 sessions", "memory"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_figure_is_measured(backend: str, cogstep: Cogstep, tmp_path: Path) -> None:
    """As one JSON object: rates and times above 0, and the warm prompt found most of itself in the cache."""
    run = cogstep("bench", "--backend", backend, *SMALL, "--json")

    assert (run.returncode, run.stderr) == (0, "")
    report = json.loads(run.stdout)
    assert (report["sessions"], report["backend"]) == (2, {"llama": "llama.cpp", "mlx": "mlx"}[backend])
    for name in ("load_seconds", "prefill_rate", "decode_rate", "first_token_cold", "first_token_warm"):
        assert report[name] > 0, name
    for name in ("sessions_rate", "session_rate", "weight_bytes", "peak_bytes", "decode_tokens"):
        assert report[name] > 0, name
    assert 48 <= report["prompt_tokens"] <= 72  # numbers in it take more or fewer
    assert report["prompt_tokens"] - 16 <= report["reused_tokens"] < report["warm_prompt_tokens"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.llama
def test_people_get_a_line_for_each_figure(cogstep: Cogstep) -> None:
    """On stdout, in the order in which they are measured; without a terminal nothing moves."""
    run = cogstep("bench", "--backend", "llama", *SMALL)

    assert (run.returncode, run.stderr) == (0, "")
    assert [line[:19].rstrip() for line in run.stdout.splitlines()] == NAMES


@pytest.mark.llama
def test_a_terminal_shows_what_is_going_on(on_terminal: OnTerminal) -> None:
    """A bar while the model loads, which is taken away again."""
    screen, code = on_terminal("bench", "--backend", "llama", *SMALL)

    assert code == 0
    assert "loading █" in screen
    assert screen.rstrip().splitlines()[-1].startswith("memory")


@pytest.mark.llama
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_the_middle(number: signal.Signals, code: int, start: Start) -> None:
    """What was measured by then has been printed, and nothing is said about it."""
    process = start("bench", "--backend", "llama", "--rounds", "1000000")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("loading")
    process.send_signal(number)
    out, errors = process.communicate()

    assert (process.returncode, out, errors) == (code, "", "")


def test_no_such_model_is_one_line(cogstep: Cogstep) -> None:
    """As for every command."""
    run = cogstep("bench", "--model", "nothing.gguf")

    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.llama
def test_replies_longer_than_the_context_are_refused(cogstep: Cogstep) -> None:
    """With the option to change."""
    run = cogstep("bench", "--backend", "llama", "--context", "256", "--tokens", "128")

    assert run.returncode == 2
    assert "fewer --tokens" in run.stderr


# --------------------------------------------------------------------------------------------------- models that behave


class Reply:
    """A generation that is over."""

    def __init__(self, done: Done) -> None:
        self._done = done

    def __iter__(self) -> Iterator[Output | Done]:
        return iter([self._done])

    def __next__(self) -> Output | Done:
        return self._done

    def cancel(self) -> None:
        raise AssertionError("it is over")


class Terse:
    """A model whose replies are all alike."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.asked: list[ModelRequest] = []

    def submit(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return Reply(self.done)

    def count_tokens(self, request: ModelRequest) -> int:
        return len(str(request.messages[0]).split())

    def describe(self) -> ModelInfo:
        return ModelInfo("terse", "none", "", 4096, FormatSpec("none"))

    def close(self) -> None:
        pass


DONE = Done("one", "", (), (), "stop", Usage(10, 3, 0), Timings(0.5, 0.25, 0.75))


def measured(model: Terse, tokens: int = 64) -> Measurement:
    return Measurement(model, 512, tokens, 1, StatusLine(Terminal(_Nowhere())))  # type: ignore[arg-type]


class _Nowhere:
    def isatty(self) -> bool:
        return False


def test_a_model_that_ends_early_is_asked_again() -> None:
    """Rates count the tokens that really came: two after the first one in each reply, in a quarter of a second."""
    model = Terse(DONE)

    assert measured(model).decode() == (2 * MOST_REPLIES, 0.25 * MOST_REPLIES)


def test_a_model_that_says_nothing_has_no_rate() -> None:
    """That is said, instead of a rate of 0."""
    model = Terse(evolve(DONE, usage=Usage(10, 1, 0)))

    with pytest.raises(CommandError, match="ends every reply at its first token"):
        measured(model).decode()


def test_a_failure_of_the_model_is_told() -> None:
    """With its own words."""
    model = Terse(evolve(DONE, finish_reason="error", failure=Failure("out of memory", kind="fatal")))

    with pytest.raises(CommandError, match="the model failed: out of memory"):
        measured(model).decode()


def test_no_two_prompts_begin_alike() -> None:
    """Else the second one would be found in the cache."""
    model = Terse(DONE)
    measured(model).sessions(3)
    begins = [str(request.messages[0])[:40] for request in model.asked]

    assert len(set(begins)) == len(begins) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0431, "0.043"), (0.999, "1.0"), (2.14, "2.1"), (27.26, "27.3"), (99.96, "100"), (1250.4, "1250")],
)
def test_figures_have_three_digits_at_the_most(value: float, text: str) -> None:
    """More would promise what a busy machine can't keep."""
    assert short(value) == text


def test_sizes_and_rates() -> None:
    """In decimal units, as disks and downloads are counted; what took no time has no rate."""
    assert [size(number) for number in (12, 4_684_448, 2_000_000_000)] == ["12 B", "4.7 MB", "2.0 GB"]
    assert (per_second(10, 0.5), per_second(10, 0.0)) == (20.0, 0.0)
