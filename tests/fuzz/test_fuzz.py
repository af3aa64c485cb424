"""Every input that fuzzing began with or once found goes through its target; and a short run finds nothing new."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runtime.constrained.schema import SchemaError, read_schema
from tests.fuzz.fuzz import NAMES
from tests.fuzz.targets import TARGETS, built, spelled

HERE = Path(__file__).resolve().parent

CORPUS = [
    pytest.param(name, path, id=f"{name}-{path.name}")
    for name in TARGETS
    for path in sorted((HERE / "corpus" / name).iterdir())
]

FOUND_SCHEMAS: dict[str, Any] = {
    "a type that is no name": {"type": {"type": "string"}},
    "types beside a constant that are no names": {"const": "a", "type": [["string"]]},
    "a name of a required property that is none": {"type": "object", "required": [{"a": 1}]},
    "a format that is no name": {"type": "string", "format": {}},
}
"""Schemas that raised something else than the error that says what is wrong with them."""


def test_the_targets_are_those_that_can_be_named() -> None:
    """The runner names them without importing what it instruments first."""
    assert tuple(TARGETS) == NAMES


@pytest.mark.parametrize(("name", "path"), CORPUS)
def test_the_corpus_passes(name: str, path: Path) -> None:
    """Without atheris, at once."""
    TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=60))
def test_any_bytes_pass(name: str, data: bytes) -> None:
    """Hypothesis tries as well; it shrinks what it finds."""
    TARGETS[name](data)


@pytest.mark.parametrize("schema", FOUND_SCHEMAS.values(), ids=list(FOUND_SCHEMAS))
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    """With the error that names the place."""
    with pytest.raises(SchemaError, match=r"@ \$"):
        read_schema(schema)


def test_bytes_spell_texts_and_schemas() -> None:
    """What the corpus is made of: characters and pieces, scalars and containers."""
    assert spelled(b"a\x80\x81b\x82", ("<x>", "é")) == "a<x>éb<x>"
    assert built(b"") == ({"type": "string"}, b"")
    assert built(b"\x01")[0] == "string"
    assert built(bytes([97, 8, 97]))[0] == ["#/$defs/a"]
    assert built(bytes([133, 0, 1]))[0] == {"type": "string"}


@pytest.mark.skipif(not find_spec("atheris"), reason="no atheris")
@pytest.mark.slow
def test_some_seconds_of_fuzzing_find_nothing(tmp_path: Path) -> None:
    """``make fuzz`` in small: all targets, guided by coverage."""
    run = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), "--seconds", "4", "--work", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout + run.stderr
    assert [line.partition(":")[0] for line in run.stdout.splitlines()] == list(NAMES)


def test_a_target_that_does_not_exist_is_named() -> None:
    """The runner says which there are."""
    run = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), "nothing"], capture_output=True, text=True, check=False
    )

    assert run.returncode == 2
    assert "there is no target 'nothing'; there are parser, repair, derivation, schema" in run.stderr
