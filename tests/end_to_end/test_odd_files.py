"""Whatever stands where a file is read: a pipe, a device, a socket, a directory, a file of a terabyte.

One line more in ``READERS`` is a surface more, one more in ``ODD_FILES`` a kind more; each is tried with each. What a
reader says is one of our errors, at once, in a process that may take little memory beyond what it has.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from cognition import CogstepError
from interpreters import Agent, rehearse, replay
from interpreters.cli.main import main
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.sessions import list_sessions, prune_sessions, read_transcript, search_sessions
from interpreters.testing.cassettes.tape import read_tape
from interpreters.testing.contracts import calls_of
from interpreters.testing.fakes import ScriptedModel
from interpreters.toolbox import standard_tools
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from runtime import Adapter, LlamaOptions, ModelFileError, Notes, load_model
from runtime.models.saved_cache import read
from runtime.models.specs import SMALL_MODEL
from runtime.templates.files import find_template
from tests.interpreters.journals import small
from tests.odd_files import ODD_FILES, SPARSE

LONG = "x" * LARGE


def command(*arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        if main([one.format(path=path) for one in arguments]) == 2:
            raise CogstepError("refused, and said so in one line")

    return run


def payload(use: Callable[[Path], object]) -> Callable[[Path], None]:
    """A recording whose payload is odd."""

    def run(path: Path) -> None:
        recording = small(path.with_name("s.jsonl"), LONG, context_tokens=10**6)
        file = directory_of(recording) / sha256(LONG.encode()).hexdigest()
        file.unlink()
        path.rename(file)
        use(recording)

    return run


def in_directory(name: str) -> Callable[[Path], None]:
    """An MLX model in whose directory a file is odd."""

    def run(path: Path) -> None:
        model = path.with_name("model")
        model.mkdir()
        for file in (SMALL_MODEL / "mlx").iterdir():
            (model / file.name).symlink_to(file)
        (model / name).unlink(missing_ok=True)
        path.rename(model / name)
        find_template(str(model))
        load_model(model, backend="mlx").close()

    return run


def tool(name: str, **arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        tools = {one.spec.name: one for one in standard_tools(path.parent)}
        with contextlib.suppress(ToolError):
            tools[name].call(arguments or {"path": path.name}, ToolContext(None))

    return run


def resume(path: Path) -> None:
    Agent.resume(path, ScriptedModel([])).close()


READERS: dict[str, Callable[[Path], object]] = {
    "replay": replay,
    "rehearse": lambda path: rehearse(path, []),
    "resume": resume,
    "fork": lambda path: Agent.fork(path, ScriptedModel([])).close(),
    "list": lambda path: list(list_sessions(path)),
    "list a directory": lambda path: list(list_sessions(path.parent)),
    "search": lambda path: list(search_sessions("x", path)),
    "transcript": read_transcript,
    "prune": lambda path: list(prune_sessions(path, keep=0)),
    "prune a directory": lambda path: list(prune_sessions(path.parent, keep=0)),
    "a contract": calls_of,
    "a payload, replayed": payload(replay),
    "a payload, resumed": payload(resume),
    "a payload, listed": payload(lambda path: list(list_sessions(path))),
    "a payload, searched": payload(lambda path: list(search_sessions("x", path))),
    "a cassette": read_tape,
    "notes": lambda path: Notes(path).close(),
    "a saved cache": lambda path: read(path, {}),
    "a template": lambda path: find_template(str(path)),
    "a model": load_model,
    "a model for llama.cpp": lambda path: load_model(path, backend="llama"),
    "a model's configuration": in_directory("config.json"),
    "a model's tokenizer": in_directory("tokenizer.json"),
    "a model's template": in_directory("chat_template.jinja"),
    "a model's weights": in_directory("model.safetensors"),
    "an index of weights": in_directory("model.safetensors.index.json"),
    "a file that a library may look for": in_directory("special_tokens_map.json"),
    "Read": tool("Read"),
    "Grep": tool("Grep", pattern="x"),
    "Grep with an expression": tool("Grep", pattern="x|y"),
    "Glob": tool("Glob", pattern="**/*"),
    "cogstep replay": command("replay", "{path}"),
    "cogstep resume": command("resume", "{path}", "Hi!"),
    "cogstep sessions show": command("sessions", "show", "{path}"),
    "cogstep sessions export": command("sessions", "export", "{path}"),
    "cogstep parse": command("parse", "{path}", "--format", "hermes"),
    "cogstep parse --tools": command("parse", "-", "--format", "hermes", "--tools", "{path}"),
    "cogstep doctor --tools": command("doctor", "--tools", "{path}"),
    "cogstep format": command("format", "{path}"),
    "an adapter": lambda path: load_model(backend="llama", options=LlamaOptions(adapters=(Adapter(path),))).close(),
}

MORE = 300 << 20
"""Bytes that a reader may take beyond what the process has."""


@pytest.fixture
def little_memory() -> Iterator[None]:
    """What reads a terabyte, or a device without end, has no room for it."""
    if sys.platform != "linux":
        yield
        return
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("kind", ODD_FILES)
@pytest.mark.parametrize("use", READERS.values(), ids=READERS)
def test_what_is_no_file_to_read_is_refused_at_once(
    tmp_path: Path, use: Callable[[Path], object], kind: str, little_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence of ours, never by waiting, and never by another exception."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    path = tmp_path / "folder" / "odd.jsonl"
    path.parent.mkdir()
    ODD_FILES[kind](path)

    raised = ""
    try:
        use(path)
    except CogstepError as error:
        raised = str(error)
    except OSError:  # documented of what looks into places: the place itself can't be looked at
        assert kind in ("link to itself", "link to nothing")
    assert "\n" not in raised
    assert "Errno" not in raised


HEADS = {
    "keys without end": struct.pack("<4sIQQ", b"GGUF", 3, 1, 1 << 60),
    "a list without end": struct.pack("<4sIQQQ", b"GGUF", 3, 1, 1, 21)
    + b"tokenizer.ggml.tokens"
    + struct.pack("<IIQ", 9, 8, 1 << 60),
    "numbers without end": struct.pack("<4sIQQQ", b"GGUF", 3, 1, 1, 21)
    + b"tokenizer.ggml.tokens"
    + struct.pack("<IIQ", 9, 0, 1 << 39),
    "a text without end": struct.pack("<4sIQQQ", b"GGUF", 3, 1, 1, 1 << 39),
}
"""Headers of a GGUF file that say there is more than any model has, in a file of a terabyte with nothing but holes."""


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_header_that_does_not_end_is_given_up(tmp_path: Path, head: bytes, little_memory: None) -> None:
    """It is followed as far as those of the largest vocabularies go."""
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(SPARSE)

    with pytest.raises(ModelFileError, match="no GGUF file"):
        find_template(str(path))


def test_an_odd_file_takes_nothing_with_it(tmp_path: Path) -> None:
    """A directory of recordings in which one is odd is listed, with the reason."""
    small(tmp_path / "good.jsonl")
    for number, make in enumerate(ODD_FILES.values()):
        make(tmp_path / f"odd{number}.jsonl")

    found = list(list_sessions(tmp_path))
    assert "good.jsonl" in [one.path.name for one in found if not hasattr(one, "reason")]
    assert json.dumps([getattr(one, "reason", "") for one in found])
    shutil.rmtree(tmp_path)
