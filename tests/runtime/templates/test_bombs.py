"""No template takes the process that loads or renders it, nor its time, nor its memory: a table of those that try.

Each meets a real program (``witness.py``), which is measured: seconds on the wall, and the memory of it and all its
processes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import TemplateError
from runtime.protocol.backend import LONGEST_TEMPLATE
from runtime.templates._probes import texts_of
from runtime.templates.template import ChatTemplate
from tests.runtime.conftest import installed_or_skip
from tests.runtime.templates.bombs import BOMBS
from tests.runtime.templates.pieces import random_template

WITNESS = Path(__file__).with_name("witness.py")

SECONDS, BYTES = 5.0, 500_000_000
"""What nobody may take, from whatever file."""

FEW = (
    "a search in a long text",
    "wide fields",
    "a list added to itself",
    "a macro that calls itself twice",
    "nested tuples, hashed",
    "much output of wide letters",
    "nested filters in the source",
)
"""One of each kind."""

ALL = os.environ.get("COGSTEP_BOMBS") == "all"
"""Whether everything meets everything, which takes a quarter of an hour. Else each bomb meets the place where a model
is looked at, a third of them each of the other two, and 200 random templates do for 2,000."""

RANDOM = 2_000 if ALL else 200

BACKENDS = {"gguf": "llama", "mlx": "mlx"}


def witnessed(place: str, templates: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """What each of these did to a program."""
    done = subprocess.run(
        [sys.executable, str(WITNESS), place],
        input=json.dumps(templates),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert list(templates) == [line["name"] for line in lines], f"the program ended with {done.returncode}"
    assert done.returncode == 0

    yield from lines


def held(place: str, templates: Mapping[str, str]) -> None:
    """None took more than it may. On a machine that has other things to do, seconds are longer."""
    longer = max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))) if sys.platform == "linux" else 4.0
    over = [
        line
        for line in witnessed(place, templates)
        if line["seconds"] > SECONDS * longer or line["bytes"] > BYTES or "Traceback" in line["said"]
    ]

    assert over == []


def test_no_template_takes_a_program_that_looks_at_it() -> None:
    """One of each kind is compiled, looked through and rendered."""
    held("derive", {name: BOMBS[name] for name in FEW})


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("place", ["derive", "step", "format"])
def test_no_template_takes_a_program(place: str) -> None:
    """Where a model is looked at, in ``cogstep format``, in a step of one that gave no sign before."""
    offset, every = {"derive": (0, 1), "step": (0, 3), "format": (1, 3)}[place]

    held(place, BOMBS if ALL else dict(list(BOMBS.items())[offset::every]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=getattr(pytest.mark, BACKENDS[place.partition(",")[0]]))
        for place in ("gguf", "mlx", "gguf, isolated", "mlx, isolated", "gguf, step", "mlx, step")
    ],
)
def test_no_model_file_takes_a_program_by_its_template(place: str) -> None:
    """One of each kind in a model that is loaded, here or in a process of its own, and asked."""
    installed_or_skip(BACKENDS[place.partition(",")[0]])

    held(place, {name: BOMBS[name] for name in FEW})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_template_of_dangerous_pieces_takes_a_program() -> None:
    """``RANDOM`` that chance has made of what is dangerous."""
    dice = random.Random(15)

    held("derive", {f"number {number}": random_template(dice) for number in range(RANDOM)})


@pytest.mark.parametrize("size", [LONGEST_TEMPLATE + 1, 1_000_000, 64_000_000])
@pytest.mark.parametrize("piece", ["a", "{{ 1 }}", "{% if messages %}{% endif %}", "é", "<a>"])
def test_a_template_that_is_longer_than_any_is_not_read(size: int, piece: str) -> None:
    """It is refused before anything looks through it."""
    with pytest.raises(TemplateError, match="more than 250,000 characters"):
        ChatTemplate((piece * (size // len(piece) + 1))[:size])


def test_no_format_holds_a_book() -> None:
    """A marker or a name of the template's own making is as long as such are."""
    letters = "a" * 300
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        f"{{% if m.reasoning_content %}}<{letters}>{{{{ m.reasoning_content }}}}</{letters}>{{% endif %}}"
        f"{{{{ m.content }}}}<|{letters}|>\n{{% endfor %}}{{{{ '<think>' if think_{letters} }}}}"
    )
    found = ChatTemplate(source, apart=False).derivation

    assert max(map(len, (*texts_of(found.spec), *found.evidence, str(found.switch))), default=0) <= 256


@pytest.mark.parametrize("token", ["bos_token", "eos_token"])
def test_a_token_that_is_longer_than_any_is_refused(token: str) -> None:
    """A template may write it for each message."""
    with pytest.raises(TemplateError, match="more than 1,000 characters"):
        ChatTemplate("{{ messages }}", **{token: "a" * 1_001})
