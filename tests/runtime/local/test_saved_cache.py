"""What a cache holds, saved and restored: reused by another process, and refused by what it is not made for."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from runtime import Adapter, Done, LlamaOptions, Rope, SavedCacheError, load_model
from runtime.local.handles import LocalRuntime
from runtime.models import saved_cache
from runtime.models.saved_cache import SavedPrefix, fingerprint, read, write
from tests.runtime.conftest import installed_or_skip

SYSTEM = "A system prompt with tools and rules. " * 4
SAVED = SavedPrefix((1, 2, 3, 151_643), memoryview(bytes(range(30))), {"model": "a", "backend": "b"})


def ask(*texts: str, max_tokens: int = 8) -> ModelRequest:
    messages: list[Message] = [
        AssistantMessage(f"m{place}", text) if place % 2 else UserMessage(f"m{place}", text)
        for place, text in enumerate(texts)
    ]
    return ModelRequest(SYSTEM, History(tuple(messages)), (), GenerationOptions(max_tokens=max_tokens))


def done(model: LocalRuntime, request: ModelRequest) -> Done:
    *_, last = model.submit(request)
    assert isinstance(last, Done)
    assert last.failure is None
    return last


class TestFile:
    """Its form. No model."""

    def test_what_is_read_is_what_was_written(self, tmp_path: Path) -> None:
        """In the place of an older file, for its owner alone, and nothing is left beside it."""
        file = tmp_path / "session.cache"
        file.write_bytes(b"older")
        write(SAVED, file)
        found = read(file, SAVED.identity)

        assert (found.tokens, bytes(found.state), found.identity) == (SAVED.tokens, bytes(SAVED.state), SAVED.identity)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [*tmp_path.iterdir()] == [file]

    def test_every_damage_is_found(self, tmp_path: Path) -> None:
        """Each byte of it, and each length that it may be cut to."""
        file = tmp_path / "session.cache"
        write(SAVED, file)
        whole = file.read_bytes()
        damaged = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(len(whole))]
        for data in (*damaged, *(whole[:length] for length in range(len(whole))), whole + b"\0"):
            file.write_bytes(data)
            with pytest.raises(
                SavedCacheError, match=r"is damaged, or was not saved by this user|holds no cache that cogstep saved"
            ) as caught:
                read(file, SAVED.identity)
            assert caught.value.path == file

    def test_one_that_somebody_else_saved_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """However right it is otherwise: native code is given no state of theirs. Nor is there one without a key."""
        file = tmp_path / "session.cache"
        for home in ("theirs", "mine"):
            with monkeypatch.context() as patch:
                patch.setenv("XDG_STATE_HOME", str(tmp_path / home))
                if home == "theirs":
                    write(SAVED, file)
                    assert read(file, SAVED.identity) == SAVED
                    continue
                with pytest.raises(SavedCacheError, match="was not saved by this user"):
                    read(file, SAVED.identity)
                write(SAVED, tmp_path / "other.cache")
                with pytest.raises(SavedCacheError, match="was not saved by this user"):
                    read(file, SAVED.identity)

    def test_what_a_stranger_builds_is_refused_at_once(self, tmp_path: Path) -> None:
        """Whatever its numbers say, and before its size is looked at: a sparse file takes neither time nor memory."""
        file = tmp_path / "session.cache"
        write(SAVED, file)
        whole = file.read_bytes()
        for length in (0, 1, 2**20, 2**31, 2**63, 2**64 - 1):
            for header in (b"", b"{}", b"[" * 1000, whole[16:200], b'{"format":2,"tokens":-1,"state":1e99}'):
                file.write_bytes(b"cogcach2" + length.to_bytes(8, "little") + header + whole[-80:])
                os.truncate(file, 1 << 40)
                with pytest.raises(SavedCacheError, match="was not saved by this user"):
                    read(file, SAVED.identity)

    def test_one_of_the_format_before_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"cogcache" + bytes(100))
        with pytest.raises(SavedCacheError, match=r"another version of cogstep \(format 1"):
            read(tmp_path / "file", SAVED.identity)

    @pytest.mark.parametrize(
        ("identity", "message"),
        [
            ({"model": "c", "backend": "b"}, r"another model \(a, and here it is c\)"),
            ({"model": "a", "backend": "b", "cache type": "q8_0"}, r"another cache type \(none, and here it is q8_0\)"),
            ({"model": "a"}, r"another backend \(b, and here it is none\)"),
        ],
    )
    def test_what_it_is_not_made_for_is_named(self, tmp_path: Path, identity: dict[str, str], message: str) -> None:
        """With both values."""
        write(SAVED, tmp_path / "file")
        with pytest.raises(SavedCacheError, match=message):
            read(tmp_path / "file", identity)

    def test_another_format_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """That of a later version."""
        with monkeypatch.context() as patch:
            patch.setattr(saved_cache, "FORMAT", 3)
            write(SAVED, tmp_path / "file")
        with pytest.raises(SavedCacheError, match=r"another version of cogstep \(format 3, and this one reads 2\)"):
            read(tmp_path / "file", SAVED.identity)

    def test_places_that_are_not_there(self, tmp_path: Path) -> None:
        """Told with the system's reason."""
        with pytest.raises(SavedCacheError, match=r"can't be written to .* \(No such file or directory\)"):
            write(SAVED, tmp_path / "no" / "file")
        with pytest.raises(SavedCacheError, match=r"can't be read from .* \(No such file or directory\)"):
            read(tmp_path / "file", SAVED.identity)

    def test_a_fingerprint_sees_size_ends_and_what_lies_between(self, tmp_path: Path) -> None:
        """Files that differ throughout differ in it."""
        file, data = tmp_path / "weights", bytes(2_000_000)
        marks = set()
        for content in (data, data + b"\0", b"\1" + data[1:], data[:-1] + b"\1", bytes([1]) * len(data), b"", b"x"):
            file.write_bytes(content)
            marks.add(fingerprint(file))

        assert len(marks) == 7


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    installed_or_skip("llama")
    tiny = pytest.importorskip("tests.runtime.tiny_models")
    folder = tmp_path_factory.mktemp("models")
    for kind in ("qwen3", "mamba", "jamba"):
        tiny.write_model(folder / f"{kind}.gguf", kind)
    tiny.write_model(folder / "other.gguf", "qwen3", seed=5)
    tiny.write_adapter(folder / "adapter.gguf")
    return folder


@pytest.fixture
def file(models: Path, tmp_path: Path) -> Path:
    """Saved by a process that has ended."""
    return saved(models, tmp_path / "session.cache", LlamaOptions())


@pytest.fixture
def pooled(models: Path, tmp_path: Path) -> Path:
    """The same, of one where all share a pool of cells."""
    return saved(models, tmp_path / "session.cache", LlamaOptions(unified=True))


def saved(models: Path, file: Path, options: LlamaOptions) -> Path:
    with load_model(models / "qwen3.gguf", options=options) as model:
        done(model, ask("Hello"))
        model.save_cache(ask("Hello"), file)
    return file


@pytest.mark.llama
class TestModel:
    @pytest.mark.parametrize("kind", ["qwen3", "mamba", "jamba"])
    def test_another_process_goes_on_where_the_first_one_was(self, models: Path, tmp_path: Path, kind: str) -> None:
        """It says what that one would have said, and computes what is new only."""
        turns = ("Hello", "Hi.", "And now?")
        with load_model(models / f"{kind}.gguf") as model:
            done(model, ask(*turns[:1]))
            saved = model.save_cache(ask(*turns[:1]), tmp_path / "cache")
            there = done(model, ask(*turns))
        with load_model(models / f"{kind}.gguf") as model:
            restored = model.restore_cache(tmp_path / "cache")
            here = done(model, ask(*turns))
            again = model.restore_cache(tmp_path / "cache")
            held = model._owner.call(lambda engine: engine._schedule.cache)

            assert (here.text, here.usage.reused_tokens) == (there.text, there.usage.reused_tokens)
            assert restored == again == saved
            assert saved <= here.usage.reused_tokens
            assert saved > here.usage.input_tokens - len("".join(turns)) - 100
            assert len(held.held) <= 3  # restored, snapshot, reply: what is there already is not put there again

    def test_only_what_the_prompt_begins_with_is_saved(self, models: Path, tmp_path: Path) -> None:
        """Not what another conversation, which shares its sequence, said further on."""
        with load_model(models / "qwen3.gguf") as model:
            first = done(model, ask("Hello, here is a secret"))
            saved = model.save_cache(ask("Hello, Dolly"), tmp_path / "cache")
            engine = model._owner.call(lambda engine: engine)
            secret = engine.prompt(ask("Hello, here is a secret"))
            other = engine.prompt(ask("Hello, Dolly"))
            tokens = read(tmp_path / "cache", engine.identity()).tokens

        assert list(tokens) == secret[:saved] == other[:saved]
        assert saved < first.usage.input_tokens - len("here is a secret")
        with load_model(models / "qwen3.gguf") as model:
            model.restore_cache(tmp_path / "cache")
            reply = done(model, ask("Hello, here is a secret"))

            assert (reply.text, reply.usage.reused_tokens) == (first.text, saved)

    def test_what_other_replies_do_meanwhile_is_left_alone(self, models: Path, file: Path, tmp_path: Path) -> None:
        """Saving and restoring happen between two batches."""
        with load_model(models / "qwen3.gguf") as model:
            alone = done(model, ask("Count", max_tokens=60)).text
            generation = model.submit(ask("Count", max_tokens=60))
            first = next(generation)
            for number in range(5):
                model.restore_cache(file)
                model.save_cache(ask("Hello"), tmp_path / f"again {number}")
            *_, last = (first, *generation)

            assert isinstance(last, Done)
            assert last.text == alone

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("other", LlamaOptions(), "another model"),
            ("qwen3", LlamaOptions(key_type="q8_0"), "another cache type"),
            ("qwen3", LlamaOptions(flash_attention=True), "another cache type"),
            ("qwen3", LlamaOptions(unified=True, flash_attention=False), "another layout of the cache"),
            ("qwen3", LlamaOptions(sequences=9), "another layout of the cache"),
            ("qwen3", {"context_tokens": 512}, "another cache type"),  # that short it has flash attention
            ("qwen3", LlamaOptions(rope=Rope(base=5e5)), "another encoding of positions"),
            ("qwen3", "adapter", "another set of adapters"),
        ],
    )
    def test_another_model_or_option_is_refused(
        self, models: Path, file: Path, name: str, options: Any, message: str
    ) -> None:
        """And the cache is as it was."""
        if options == "adapter":
            options = LlamaOptions(adapters=[Adapter(models / "adapter.gguf")])
        wanted = options if isinstance(options, dict) else {"options": options}
        with load_model(models / f"{name}.gguf", **wanted) as model:
            with pytest.raises(SavedCacheError, match=message):
                model.restore_cache(file)

            assert done(model, ask("Hello")).usage.reused_tokens == 0

    def test_lengths_and_threads_may_differ(self, models: Path, file: Path) -> None:
        """What is computed does not depend on them."""
        with load_model(
            models / "qwen3.gguf", context_tokens=600, threads=1, options=LlamaOptions(mmap=False)
        ) as model:
            assert model.restore_cache(file) > 100
            assert done(model, ask("Hello")).usage.reused_tokens > 100

    def test_so_may_sizes_of_a_pool(self, models: Path, pooled: Path) -> None:
        """Where each has cells of its own, llama.cpp wants as many conversations as there were."""
        options = LlamaOptions(cells=800, sequences=2, unified=True)
        with load_model(models / "qwen3.gguf", context_tokens=400, options=options) as model:
            assert model.restore_cache(pooled) > 100
            assert done(model, ask("Hello")).usage.reused_tokens > 100

    @pytest.mark.parametrize("unified", [False, True])
    def test_of_what_is_saved_nothing_else_goes_along(self, models: Path, tmp_path: Path, unified: bool) -> None:
        """Two prompts begin alike: of the one that is held longer, only that beginning is saved, and it stays."""
        options = LlamaOptions(unified=unified)
        with load_model(models / "qwen3.gguf", options=options) as model:
            first = done(model, ask("Hello"))
            shared = model.save_cache(ask("Another"), tmp_path / "cache")
            again = done(model, ask("Hello"))
        with load_model(models / "qwen3.gguf", options=options) as model:
            assert model.restore_cache(tmp_path / "cache") == shared
            there = done(model, ask("Another")).usage.reused_tokens
        with load_model(models / "qwen3.gguf", options=options) as model:
            done(model, ask("Hello"))

            assert shared == there == done(model, ask("Another")).usage.reused_tokens
            assert again.text == first.text
            assert again.usage.reused_tokens == first.usage.input_tokens - 1

    def test_what_does_not_fit_is_refused(self, models: Path, pooled: Path) -> None:
        """Idle sequences go for it; those that run don't."""
        with load_model(models / "qwen3.gguf", context_tokens=300, options=LlamaOptions(cells=300)) as model:
            for text in ("one", "two"):
                done(model, ask(text))
            assert model.restore_cache(pooled) > 100
            gate = threading.Event()
            model._owner.put(lambda _engine: bool(gate.wait(60)))
            running = model.submit(ask("Something else", max_tokens=100))
            gate.set()
            next(running)
            with pytest.raises(SavedCacheError, match="no room for the"):
                model.restore_cache(pooled)
            running.cancel()
            assert isinstance([*running][-1], Done)

    def test_what_llama_cpp_refuses_is_an_error(self, models: Path, file: Path) -> None:
        """The sequence is empty then, and everything goes on."""
        with load_model(models / "qwen3.gguf") as model:
            identity = model._owner.call(lambda engine: engine.identity())
            good = read(file, identity)
            write(SavedPrefix(good.tokens[:-1], good.state, identity), file)
            with pytest.raises(SavedCacheError, match="can't take back a state of"):
                model.restore_cache(file)
            write(SavedPrefix(good.tokens, good.state[:-8], identity), file)
            with pytest.raises(SavedCacheError, match="can't take back a state of"):
                model.restore_cache(file)

            assert done(model, ask("Hello")).usage.reused_tokens == 0

    def test_nothing_to_save(self, models: Path, tmp_path: Path) -> None:
        """Nothing of this prompt was ever computed."""
        with load_model(models / "qwen3.gguf") as model:
            with pytest.raises(SavedCacheError, match="submit the request first"):
                model.save_cache(ask("Hello"), tmp_path / "cache")

            assert "saved_cache" in model.describe().features
            assert not (tmp_path / "cache").exists()


def test_the_header_can_be_read_by_people(tmp_path: Path) -> None:
    """It is JSON, behind its length."""
    write(SAVED, tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    length = int.from_bytes(data[8:16], "little")

    header = json.loads(data[16 : 16 + length])
    assert len(header.pop("digest")) == 64
    assert header == {"format": 2, "tokens": 4, "state": 30, "identity": dict(SAVED.identity)}


class Unable:
    """A backend that can't save, in front of one that can."""


@pytest.fixture
def unable(monkeypatch: pytest.MonkeyPatch, models: Path) -> Iterator[LocalRuntime]:
    with load_model(models / "qwen3.gguf") as model:
        monkeypatch.setattr("runtime.local.engine.StateBackend", Unable)
        yield model


@pytest.mark.llama
def test_a_backend_that_can_not_save_says_so(unable: LocalRuntime, tmp_path: Path) -> None:
    """By an error, as by its features."""
    with pytest.raises(SavedCacheError, match=r"can't be saved: llama.cpp can't save what its cache holds"):
        unable.save_cache(ask("Hello"), tmp_path / "cache")
    with pytest.raises(SavedCacheError, match="can't be restored"):
        unable.restore_cache(tmp_path / "cache")


@pytest.mark.llama
def test_a_model_in_a_process_of_its_own_saves_and_restores(tmp_path: Path) -> None:
    """Its file is any other's, also for the process that comes after one that was killed."""
    pytest.importorskip("llama_cpp", reason="the extra `llama` is not installed")
    request = ModelRequest(
        "You are one of many. " * 10, History((UserMessage("m1", "Hi"),)), (), GenerationOptions(max_tokens=4)
    )
    with load_model(backend="llama", isolate=True) as model:
        with pytest.raises(SavedCacheError, match="holds nothing of this prompt") as caught:
            model.save_cache(request, tmp_path / "a")
        assert caught.value.path == tmp_path / "a"
        list(model.submit(request))
        saved = model.save_cache(request, tmp_path / "a")
        assert model.pid is not None
        os.kill(model.pid, signal.SIGKILL)

        assert model.restore_cache(tmp_path / "a") == saved
        *_, done = model.submit(request)
        assert isinstance(done, Done)
        assert done.usage.reused_tokens == saved - 1 == done.usage.input_tokens - 1
