"""What can't be loaded is told in one line that says what to do, before native code prints anything."""

import gc
import json
import re
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import runtime.models.specs
from cognition import CogstepError, GenerationOptions, History, ModelRequest, UserMessage
from runtime import (
    Done,
    ExtraMissingError,
    LoadCancelledError,
    LoadProgress,
    ModelFileError,
    ModelLoadError,
    ModelNotFoundError,
    ModelSpecError,
    load_model,
)
from runtime.models.installation import install_line, install_lines
from runtime.models.specs import SMALL_MODEL, BackendName, Source, resolve

ROOT = Path(__file__).resolve().parents[2]


def gguf(path: Path, *, version: int = 3, rest: bytes = bytes(16)) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + rest)
    return path


def mlx(path: Path, *, without: str = "", **files: bytes) -> Path:
    """A directory that looks like an MLX model, from the one that ships; its weights are a few bytes."""
    header = json.dumps({"w": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    contents = {
        "config.json": b'{"model_type": "qwen3"}',
        "tokenizer.json": b"{}",
        "model.safetensors": struct.pack("<Q", len(header)) + header + bytes(4),
    }
    path.mkdir()
    for name, content in (contents | {name.replace("__", "."): content for name, content in files.items()}).items():
        if name != without:
            (path / name).write_bytes(content)
    return path


class TestForms:
    """What a spec may be. Nothing is loaded."""

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("ollama:llama3", "'ollama:llama3' names no model in a form that is known; use a .gguf file"),
            (" ", "an empty text names no model; use a .gguf file"),
            ("hf:", r"is not of the form hf:owner/repo\[@rev\]\[/file.gguf\]"),
            ("hf:only-a-name", r"is not of the form hf:owner/repo\[@rev\]\[/file.gguf\]"),
        ],
    )
    def test_an_unknown_form(self, spec: str, message: str) -> None:
        """It names the forms that there are."""
        with pytest.raises(ModelSpecError, match=message):
            resolve(spec, None)

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("no/such/file.gguf", "there is no file or directory no/such/file.gguf; a model is"),
            ("llama3.2", "there is no file or directory llama3.2; for a model behind a server, write ollama/llama3.2"),
            ("qwen/qwen3", "there is no file or directory qwen/qwen3; for the Hugging Face hub, write hf:qwen/qwen3"),
        ],
    )
    def test_what_is_not_there(self, spec: str, message: str) -> None:
        """It names the path, and what may have been meant."""
        with pytest.raises(ModelNotFoundError, match=message) as caught:
            resolve(spec, None)
        assert caught.value.spec == spec

    def test_an_unknown_backend(self) -> None:
        """It names those that there are."""
        with pytest.raises(ModelSpecError, match="no backend 'cuda'; use one of: llama, mlx"):
            resolve(None, "cuda")  # type: ignore[arg-type]  # what is tested

    def test_a_backend_that_does_not_fit(self, tmp_path: Path) -> None:
        """A GGUF file is not for MLX, and the other way round."""
        with pytest.raises(ModelSpecError, match=r"is a GGUF file, which llama.cpp loads; leave out backend='mlx'"):
            resolve(gguf(tmp_path / "m.gguf"), "mlx")
        with pytest.raises(ModelSpecError, match="is an MLX directory, which MLX loads; leave out backend='llama'"):
            resolve(mlx(tmp_path / "m"), "llama")

    def test_the_shipped_model_is_there_for_both(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a spec: llama.cpp if it is installed, else MLX, or the one that is asked for."""
        monkeypatch.setattr(runtime.models.specs, "is_installed", lambda _backend: True)
        assert resolve(None, None).backend == "llama"
        assert resolve(None, "mlx") == Source("mlx", SMALL_MODEL / "mlx")

        monkeypatch.setattr(runtime.models.specs, "is_installed", lambda backend: backend == "mlx")
        assert resolve(None, None).backend == "mlx"


class TestExtras:
    def test_no_backend_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It names both install lines."""
        monkeypatch.setattr(runtime.models.specs, "is_installed", lambda _backend: False)

        with pytest.raises(ExtraMissingError, match=re.escape(install_lines("llama", "mlx"))):
            resolve(None, None)

    @pytest.mark.parametrize(("backend", "name"), [("llama", "llama.cpp"), ("mlx", "MLX")])
    def test_the_one_that_a_model_needs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, name: str
    ) -> None:
        """It names the install line of that backend."""
        monkeypatch.setattr(runtime.models.specs, "is_installed", lambda _backend: False)
        path = gguf(tmp_path / "m.gguf") if backend == "llama" else mlx(tmp_path / "m")

        with pytest.raises(
            ExtraMissingError, match=rf"{name} is not installed.*: {re.escape(install_line(backend))}"
        ) as e:
            resolve(path, None)
        assert e.value.extra == backend


class TestGgufFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "m.gguf is empty"),
            (b"PK\x03\x04 a zip", "m.gguf is no GGUF file; a model is a .gguf file"),
            (b"GGUF\x03\x00", "m.gguf is cut short; fetch it again"),
            (b"GGUF" + struct.pack("<I", 1) + bytes(16), "is GGUF of version 1, and llama.cpp reads 2 and 3"),
        ],
    )
    def test_what_is_none(self, tmp_path: Path, content: bytes, message: str) -> None:
        """Seen from the first bytes, without llama.cpp."""
        path = tmp_path / "m.gguf"
        path.write_bytes(content)

        with pytest.raises(ModelFileError, match=message):
            resolve(path, None)

    @pytest.mark.llama
    @pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
    def test_one_that_is_cut_short(self, tmp_path: Path, capfd: pytest.CaptureFixture[str], share: float) -> None:
        """llama.cpp's reason stands in the message, and nothing on the terminal."""
        pytest.importorskip("llama_cpp", reason="the extra `llama` is not installed")
        (whole,) = SMALL_MODEL.glob("*.gguf")
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])

        with pytest.raises(ModelFileError, match=r"llama.cpp can't load .*cut.gguf \(.+\); the file may be cut short"):
            load_model(path)
        assert capfd.readouterr() == ("", "")


class TestMlxDirectories:
    @pytest.mark.parametrize(
        ("without", "message"),
        [
            ("config.json", "is no MLX model: config.json is missing"),
            ("model.safetensors", r"holds no weights \(model\*.safetensors\)"),
            ("tokenizer.json", "holds no tokenizer"),
        ],
    )
    def test_a_part_is_missing(self, tmp_path: Path, without: str, message: str) -> None:
        """It names the part."""
        with pytest.raises(ModelNotFoundError, match=message):
            resolve(mlx(tmp_path / "m", without=without), None)

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({"config__json": b"{"}, "config.json can't be read as JSON"),
            ({"config__json": b"[]"}, "config.json holds no JSON object"),
            ({"config__json": b"{}"}, "names no model_type"),
            ({"model__safetensors": b""}, "model.safetensors is no safetensors file"),
            ({"model__safetensors": struct.pack("<Q", 2) + b"{}"}, "model.safetensors is no safetensors file"),
            ({"model__safetensors": b"x" * 100}, "model.safetensors is no safetensors file"),
        ],
    )
    def test_a_part_is_wrong(self, tmp_path: Path, files: dict[str, bytes], message: str) -> None:
        """It names the file, and what is wrong with it."""
        with pytest.raises(ModelFileError, match=message):
            resolve(mlx(tmp_path / "m", **files), None)

    def test_weights_that_are_cut_short(self, tmp_path: Path) -> None:
        """Seen from the header, without MLX."""
        path = mlx(tmp_path / "m")
        weights = path / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])

        with pytest.raises(ModelFileError, match=r"model.safetensors is cut short: \d+ of \d+ bytes"):
            resolve(path, None)

    def test_a_shard_is_missing(self, tmp_path: Path) -> None:
        """The index names it."""
        index = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}).encode()
        path = mlx(tmp_path / "m", **{"model.safetensors.index.json": index})

        with pytest.raises(ModelNotFoundError, match=r"lacks model-2.safetensors"):
            resolve(path, None)

    def test_a_directory_of_gguf_files(self, tmp_path: Path) -> None:
        """It names the files that could be meant."""
        gguf(tmp_path / "b.gguf")
        gguf(tmp_path / "a.gguf")

        with pytest.raises(ModelNotFoundError, match=r"for llama.cpp, name one of its files: a.gguf, b.gguf"):
            resolve(tmp_path, None)

    @pytest.mark.mlx
    def test_what_mlx_can_not_load(self, tmp_path: Path) -> None:
        """What looks right and is not: its reason stands in the message."""
        pytest.importorskip("mlx.core", reason="the extra `mlx` is not installed")
        path = tmp_path / "m"
        shutil.copytree(SMALL_MODEL / "mlx", path)
        config = json.loads((path / "config.json").read_text("utf-8"))
        (path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}), "utf-8")

        with pytest.raises(ModelFileError, match=r"MLX can't load .* \(ValueError: .+\); fetch it again"):
            load_model(path)


class TestProgress:
    def test_it_comes_in_the_callers_thread_and_ends_with_all(self, backend_name: BackendName) -> None:
        """From 0 to 1, never backwards."""
        seen: list[tuple[int, LoadProgress]] = []
        load_model(
            backend=backend_name, on_progress=lambda progress: seen.append((threading.get_ident(), progress))
        ).close()
        fractions = [progress.fraction for _thread, progress in seen]

        assert {thread for thread, _progress in seen} == {threading.get_ident()}
        assert (fractions[0], fractions[-1]) == (0.0, 1.0)
        assert fractions == sorted(fractions)

    def test_false_cancels(self, backend_name: BackendName) -> None:
        """Whatever was loaded is let go."""
        with pytest.raises(LoadCancelledError, match="was cancelled"):
            load_model(backend=backend_name, on_progress=lambda _progress: False)

    def test_an_error_in_it_comes_through(self, backend_name: BackendName) -> None:
        """As Ctrl-C does: the load is given up."""

        def interrupt(_progress: LoadProgress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            load_model(backend=backend_name, on_progress=interrupt)

    def test_a_context_without_room(self) -> None:
        """A prompt and a reply take a token each."""
        with pytest.raises(ModelSpecError, match="context_tokens must be at least 2, not 1"):
            load_model(context_tokens=1)


class TestLife:
    def test_a_runtime_that_nobody_holds_is_closed(self, backend_name: BackendName) -> None:
        """Its thread ends; a reply that is still read keeps it alive."""
        model = load_model(backend=backend_name)
        thread = model._owner._thread
        generation = model.submit(
            ModelRequest("", History((UserMessage("m1", "Hello"),)), (), GenerationOptions(max_tokens=4))
        )
        del model
        gc.collect()
        *_, done = generation
        assert isinstance(done, Done)
        assert done.finish_reason in ("stop", "length")
        del generation
        gc.collect()
        thread.join(60)

        assert not thread.is_alive()

    @pytest.mark.parametrize("close", ["", "; model.close()"], ids=["open", "closed"])
    def test_a_program_ends_cleanly(self, backend_name: BackendName, close: str) -> None:
        """With its model still open too, and nothing on the terminal."""
        code = (
            "from runtime import load_model; from cognition import *; "
            f"model = load_model(backend={backend_name!r}); "
            "request = ModelRequest('', History((UserMessage('m', 'Hi'),)), (), GenerationOptions(max_tokens=2)); "
            "list(model.submit(request))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code + close], cwd=ROOT, capture_output=True, text=True, check=False
        )

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_importing_runtime_imports_no_backend(self) -> None:
        """Nor anything else that takes its time."""
        slow = {
            "jinja2",
            "llama_cpp",
            "mlx",
            "mlx_lm",
            "numpy",
            "tokenizers",
            "transformers",
            "huggingface_hub",
            "cattrs",
        }
        code = "import sys, runtime; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

        assert slow.isdisjoint(done.stdout.split())


def test_all_errors_are_of_one_family() -> None:
    """Who embeds catches one class."""
    assert issubclass(ModelLoadError, CogstepError)
    for error in (ExtraMissingError, LoadCancelledError, ModelFileError, ModelNotFoundError, ModelSpecError):
        assert issubclass(error, ModelLoadError)


@pytest.mark.llama
@pytest.mark.behaviour("T13_2")
def test_llama_cpp_is_asked_for_both_templates(tmp_path: Path) -> None:
    """A question without tools gets the default, one with tools the other; both are in the model's file."""
    from runtime.llama.backend import LlamaBackend
    from tests.runtime.tiny_models import TEMPLATE, write_model

    tools = "{{ tools | tojson if tools }}" + TEMPLATE
    named = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": tools}]
    backend = LlamaBackend(write_model(tmp_path / "m.gguf", template=named), context_tokens=64)
    try:
        assert (tools, TEMPLATE) == (backend.metadata.template, backend.metadata.plain_template)
    finally:
        backend.close()
