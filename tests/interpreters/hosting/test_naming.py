"""A message names nothing of a host's side but what the host has named; who speaks to it may be anybody."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError
from interpreters.hosting import AgentHost, HostError, ModelChoice
from interpreters.hosting._agent_host import place_of
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.hosting import models
from tests.interpreters.hosting.common import talk


def start(**model: Any) -> str:
    return json.dumps({"type": "start", "id": "1", "version": 5, "model": model})


def init(identity: str = "2", **settings: Any) -> str:
    return json.dumps({"type": "init", "id": identity, "session": identity, "settings": settings})


def make() -> ScriptedModel:
    """A factory."""
    return ScriptedModel([])


@pytest.mark.parametrize(
    "model",
    [
        {"factory": "os:system", "arguments": {"command": "touch TRACE"}},
        {"factory": "subprocess:run", "arguments": {"args": ["touch", "TRACE"]}},
        {"factory": "builtins:exec"},
        {"factory": "posix:system", "arguments": {"command": "touch TRACE"}},
        {"factory": "tests.interpreters.hosting.models:scripted", "arguments": {"replies": []}},
        {"factory": "interpreters.testing.fakes:ScriptedModel", "arguments": {"replies": []}},
        {"factory": "mine:"},
        {"factory": " mine"},
        {"factory": "mine\n"},
        {"factory": "__class__"},
        {"factory": ":"},
        {"load": "/etc/passwd"},
        {"load": "hf:someone/something"},
        {"load": "./model.gguf"},
        {"load": ""},
        {"load": "named.gguf/../other.gguf"},
        {"load": "named.gguf", "factory": "os:system"},
    ],
    ids=str,
)
@pytest.mark.parametrize("named", [{}, {"factories": {"mine": make}, "models": ["named.gguf"]}], ids=["none", "some"])
def test_a_model_that_the_host_has_not_named_is_refused(
    model: dict[str, Any], named: dict[str, Any], tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    (refused,) = talk([start(**model).replace("TRACE", str(trace))], **named)

    assert (refused.tag, refused.error) == ("refused", "ConfigError")
    assert "this host" in refused.message
    assert not trace.exists()


def test_a_factory_that_the_host_has_named_is_called_with_what_the_message_says() -> None:
    told: list[Any] = []

    def mine(**arguments: Any) -> ScriptedModel:
        told.append(arguments)
        return ScriptedModel([])

    (started,) = talk([start(factory="mine", arguments={"a": 1})], factories={"mine": mine})

    assert (started.tag, told) == ("started", [{"a": 1}])


def test_a_factory_that_gives_no_model_is_an_error() -> None:
    (refused,) = talk([start(factory="mine")], factories={"mine": "builtins:dict"})

    assert "which is no Runtime" in refused.message


FILES = ("/etc/passwd", "../outside", "a/../../outside", "link/out", "", ".", "a\0b", "/", "~/x", "x" * 5000)


@pytest.mark.parametrize("setting", ["journal", "notes"])
@pytest.mark.parametrize("name", FILES, ids=lambda name: repr(name[:20]))
def test_a_file_outside_of_the_host_s_folder_is_refused(name: str, setting: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for files in (None, folder):
        said = talk([init(**{setting: name})], ScriptedModel([]), files=files)
        if (name, setting) != ("", "notes") and not name.startswith("~"):
            assert [one.tag for one in said] == ["refused"]

    assert sorted(path for path in tmp_path.rglob("*") if "~" not in str(path)) == before


def test_a_file_in_the_host_s_folder_is_written(tmp_path: Path) -> None:
    (ready,) = talk([init(journal="a.jsonl", notes=":memory:")], ScriptedModel([]), files=tmp_path)

    assert ready.tag == "ready"
    assert os.listdir(tmp_path)


def test_resuming_needs_a_name_too(tmp_path: Path) -> None:
    """A recording of somebody else's, or any file that is none."""
    line = json.dumps(
        {"type": "init", "id": "2", "session": "s", "settings": {"journal": "/etc/passwd"}, "resume": True}
    )
    (refused,) = talk([line], ScriptedModel([]), files=tmp_path)

    assert "is no file in the folder" in refused.message


def test_a_host_has_no_end_of_sessions_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreters.hosting._host.MOST_SESSIONS", 3)
    said = talk([init(str(number)) for number in range(5)], ScriptedModel([]))

    assert sorted(one.tag for one in said) == ["ready"] * 3 + ["refused"] * 2


def test_what_is_repeated_of_a_message_is_short() -> None:
    """A stranger's long names do not come back as they are."""
    said = talk(
        [json.dumps({"type": "run_turn", "session": "x" * 1_000_000, "turn": 1, "text": ""})], ScriptedModel([])
    )

    assert max(len(one.message) for one in said) < 1000


@pytest.mark.parametrize("factory", ["os", "os:", ":system", "a:b c", lambda: None, make, print, "__main__:make"])
def test_what_another_process_can_not_find_is_refused_before_it_is_started(factory: Any) -> None:
    if factory is make:
        assert place_of(factory).endswith(":make")
        return
    if factory is print:
        assert place_of(factory) == "builtins:print"
        return
    with pytest.raises(ConfigError, match="no factory that another process can find"):
        AgentHost.in_process(ModelChoice(factory="mine"), factories={"mine": factory})


@pytest.mark.slow
def test_a_process_calls_the_factories_alone_that_it_was_told(tmp_path: Path) -> None:
    """Not even the program that started it can have it call another one."""
    trace = tmp_path / "trace"
    choice = ModelChoice(factory="os:system", arguments={"command": f"touch {trace}"})
    with pytest.raises(HostError, match="this host has no factory 'os:system'; it names 'script'"):
        AgentHost.in_process(choice, factories={"script": models.scripted})

    assert not trace.exists()
