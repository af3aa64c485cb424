"""Cassettes with any value at any place: an error that names the file, a miss, or what stands there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent
from interpreters.recording.journal import JournalError
from interpreters.testing.cassettes import Cassette, CassetteError
from interpreters.testing.contracts import calls_of
from interpreters.testing.fakes import Reply, ScriptedModel, call
from tests.interpreters.evil import EVIL, places, put
from tests.interpreters.simple_tools import multiply


def say(cassette: Cassette) -> None:
    script: list[Any] = [call("multiply", a=17, b=23), Reply("It is 391.", chunk=3, reasoning="So."), "You're welcome."]
    with Agent(cassette.model(lambda: ScriptedModel(script)), [multiply], "Be brief.") as agent:
        agent.run("What is 17 * 23?")
        agent.run("Thanks!")


def read_every_way(path: Path) -> None:
    for read in (lambda: say(Cassette(path)), lambda: calls_of(path)):
        try:
            read()
        except (CassetteError, JournalError) as error:
            if error.path != path:
                raise AssertionError("the file is not named") from error


@pytest.mark.slow
@pytest.mark.behaviour("R13d")
def test_any_value_at_any_place_of_a_cassette_is_an_error_or_right(tmp_path: Path) -> None:
    """A cassette lies beside its test and is edited by hand."""
    path = tmp_path / "c.json"
    with Cassette(path, "record") as cassette:
        say(cassette)
    data = json.loads(path.read_text())
    digits = sys.get_int_max_str_digits()

    for place in places(data):
        for value in EVIL.values():
            sys.set_int_max_str_digits(0)
            try:
                path.write_text(json.dumps(put(data, place, value)))
            finally:
                sys.set_int_max_str_digits(digits)
            read_every_way(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format":' * 5000, '{"format": "cogstep-cassette", "version": 1e999}', "\ud83d"]
)
def test_any_text_that_is_no_cassette_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(CassetteError, match=str(path)):
        say(Cassette(path))


def test_what_is_no_file_is_no_cassette(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(CassetteError, match="only a regular file is read"):
            say(Cassette(path))
