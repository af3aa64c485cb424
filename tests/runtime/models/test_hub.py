"""``hf:`` specs, without a network: from a cache made by the test."""

import importlib
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import LoadCancelledError, ModelLoadError, ModelNotFoundError, ModelSpecError
from runtime.models.hub import _choose, _progress_class, fetch
from runtime.models.specs import SMALL_MODEL

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"

Cached = Callable[..., Path]


def go_on(_fraction: float) -> bool:
    return True


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """Takes the network away, and makes a repository in an empty cache."""
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def make(repo: str, *files: str, ref: str = "main", commit: str = COMMIT) -> Path:
        folder = tmp_path / f"models--{repo.replace('/', '--')}"
        (folder / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True, exist_ok=True)
        for file in files:
            (snapshot / file).write_bytes(b"GGUF" + struct.pack("<I", 3) + bytes(16))
        return snapshot

    return make


def test_a_file_comes_from_the_cache(cached: Cached) -> None:
    """A named file is found without a network."""
    snapshot = cached("owner/repo", "a.gguf", "b.gguf")

    assert fetch("hf:owner/repo/b.gguf", None, go_on) == snapshot / "b.gguf"


def test_a_repository_comes_from_the_cache(cached: Cached) -> None:
    """Its one GGUF file, or its directory if it is an MLX model."""
    one = cached("owner/one", "only.gguf", "README.md")
    mlx = cached("owner/mlx", "config.json", "model.safetensors", "tokenizer.json")

    assert fetch("hf:owner/one", None, go_on) == one / "only.gguf"
    assert fetch("hf:owner/mlx", None, go_on) == mlx


@pytest.mark.parametrize(
    ("revision", "ref"), [("v1.0", "v1.0"), ("refs%2Fpr%2F1", "refs/pr/1"), ("main", "main"), (OTHER, "v1.0")]
)
def test_a_revision_is_taken_as_it_is_named(cached: Cached, revision: str, ref: str) -> None:
    """A branch, a tag or a commit, of a file as of a repository; not what the main branch has."""
    main = cached("owner/repo", "a.gguf")
    pinned = cached("owner/repo", "a.gguf", "b.gguf", ref=ref, commit=OTHER)

    assert pinned / "b.gguf" == fetch(f"hf:owner/repo@{revision}/b.gguf", None, go_on)
    assert pinned / "a.gguf" == fetch(f"hf:owner/repo@{revision}/a.gguf", None, go_on)
    if ref != "main":
        assert main / "a.gguf" == fetch("hf:owner/repo", None, go_on)


def test_a_commit_that_is_in_the_cache_needs_no_network(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked whether it is up to date: a commit always is. So it loads where the network is there, too."""
    asked: list[str] = []
    hub = importlib.import_module("huggingface_hub")
    pinned = cached("owner/repo", "a.gguf", commit=OTHER)
    mlx = cached("owner/mlx", commit=OTHER)
    for file in (SMALL_MODEL / "mlx").iterdir():
        (mlx / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_HUB_OFFLINE", False)
    for name in ("list_repo_files", "repo_info", "model_info"):
        monkeypatch.setattr(hub.HfApi, name, lambda *_, **__: asked.append("the hub"))

    assert pinned / "a.gguf" == fetch(f"hf:owner/repo@{OTHER}/a.gguf", None, go_on)
    assert mlx == fetch(f"hf:owner/mlx@{OTHER}", None, go_on)
    assert asked == []


@pytest.mark.parametrize("spec", ["hf:owner/repo@", "hf:owner/repo@/a.gguf", "hf:owner/repo@a@b", "hf:owner/repo@a b"])
def test_what_is_no_revision_is_refused(cached: Cached, spec: str) -> None:
    """Before anybody is asked for it."""
    with pytest.raises(ModelSpecError, match=r"is not of the form hf:owner/repo\[@rev\]"):
        fetch(spec, None, go_on)


def test_a_revision_that_is_not_there_is_told(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about a slash in its name, which would be taken for the file."""
    hub = importlib.import_module("huggingface_hub")
    httpx = importlib.import_module("httpx2")

    def missing(*_arguments: object, **_options: object) -> list[str]:
        response = httpx.Response(404, request=httpx.Request("GET", "https://huggingface.co"))
        raise hub.errors.RevisionNotFoundError("no", response=response)

    monkeypatch.setattr(hub.HfApi, "list_repo_files", missing)
    cached("owner/repo", "a.gguf")
    with pytest.raises(ModelNotFoundError, match=r"owner/repo has no revision 'dev': .* %2F for a slash in its name"):
        fetch("hf:owner/repo@dev", None, go_on)


@pytest.mark.parametrize("spec", ["hf:nobody/nothing", "hf:nobody/nothing/m.gguf", "hf:owner/repo@v9/a.gguf"])
def test_what_is_not_in_the_cache(cached: Cached, spec: str) -> None:
    """Without a network it says so, and what to do."""
    with pytest.raises(ModelNotFoundError, match=re.escape(f"{spec} is not in the local cache, and the")):
        fetch(spec, None, go_on)


def test_a_network_that_fails_in_its_own_way_is_no_traceback(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the HTTP library raises is not the client's: the cache serves, or a clear line says what to do."""

    class ConnectError(Exception):
        """As httpx and its successors raise it."""

    def unreachable(*_arguments: object, **_options: object) -> list[str]:
        raise ConnectError("Name or service not known")

    hub = importlib.import_module("huggingface_hub")
    monkeypatch.setattr(hub.HfApi, "list_repo_files", unreachable)
    one = cached("owner/one", "only.gguf")

    assert one / "only.gguf" == fetch("hf:owner/one", None, go_on)
    with pytest.raises(ModelNotFoundError, match="is not in the local cache"):
        fetch("hf:nobody/nothing", None, go_on)
    monkeypatch.setattr(hub, "hf_hub_download", unreachable)
    with pytest.raises(ModelLoadError, match=r"could not be fetched \(ConnectError: Name or service not known\)"):
        fetch("hf:owner/one/only.gguf", None, go_on)


@pytest.mark.parametrize(
    ("names", "backend", "expected"),
    [
        (["m-Q8_0.gguf", "m-Q4_K_M.gguf", "README.md"], None, "m-Q4_K_M.gguf"),
        (["m.f16.gguf", "mmproj-m.gguf"], None, "m.f16.gguf"),
        (["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"], None, "m-00001-of-00002.gguf"),
        (["config.json", "model.safetensors", "m.gguf"], None, None),
        (["config.json", "model.safetensors", "m.gguf"], "llama", "m.gguf"),
        (["config.json", "model.safetensors"], "mlx", None),
    ],
)
def test_which_file_of_a_repository_is_taken(names: list[str], backend: str | None, expected: str | None) -> None:
    """The one that most people want; None is the whole directory."""
    assert _choose(names, backend, "hf:owner/repo") == expected


def test_several_files_without_a_favourite_are_named() -> None:
    """One guess is as good as another, so none is made."""
    with pytest.raises(ModelSpecError, match=r"holds several models; add one of: a.gguf, b.gguf"):
        _choose(["b.gguf", "a.gguf"], None, "hf:owner/repo")


def test_a_repository_without_a_model() -> None:
    """It says what would have been one."""
    with pytest.raises(ModelNotFoundError, match=r"neither a GGUF file nor config.json with safetensors"):
        _choose(["README.md"], None, "hf:owner/repo")


def test_downloads_are_reported_and_can_be_cancelled(capfd: pytest.CaptureFixture[str]) -> None:
    """The client's progress bar tells us, and shows nothing."""
    seen: list[float] = []

    def on_download(fraction: float) -> bool:
        seen.append(fraction)
        return fraction < 0.7

    bar = _progress_class(on_download, "hf:owner/repo")(total=4, unit="B", desc="a file")
    bar.update(1)
    bar.update(1)
    with pytest.raises(LoadCancelledError):
        bar.update(1)
    bar.close()

    assert seen == [0.25, 0.5, 0.75]
    assert capfd.readouterr() == ("", "")


def test_a_template_is_fetched_without_the_weights(cached: Cached) -> None:
    """Where a repository keeps it in files of its own, these are all that is asked for; else it is in the GGUF."""
    mlx = cached("owner/mlx", "config.json", "model.safetensors", "tokenizer_config.json")
    one = cached("owner/one", "only.gguf")

    assert fetch("hf:owner/mlx", None, go_on, template_only=True) == mlx
    assert fetch("hf:owner/one", None, go_on, template_only=True) == one / "only.gguf"
