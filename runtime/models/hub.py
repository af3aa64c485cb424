"""Models from the Hugging Face hub, through its own client: resumable downloads and a cache shared with other tools.

Without a network, files come from the cache. This module does not inspect files; ``specs`` checks them.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from runtime.errors import ExtraMissingError, LoadCancelledError, ModelLoadError, ModelNotFoundError, ModelSpecError
from runtime.models.installation import install_line
from runtime.models.mlx_files import check_mlx_directory

SPEC = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/@\s]+))?(?:/(?P<file>.+))?")

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A full commit hash: its files never change, so the cache is never outdated."""

MLX_FILES = ["*.json", "*.jinja", "tokenizer.model", "model*.safetensors"]

TEMPLATE_FILES = [
    "chat_template.jinja", "additional_chat_templates/*.jinja", "chat_template.json", "tokenizer_config.json",
]  # fmt: skip
"""Files of a repository that contain its chat template beside the weights: a few kilobytes."""

PREFERRED = ("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q8_0")
"""Preference among several GGUF files if the spec names none, best first: the best for its size, as most publishers
advise.
"""

PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")
"""A part of a split model; llama.cpp receives the first and finds the others beside it."""

OnDownload = Callable[[float], bool]


def fetch(spec: str, backend: str | None, on_download: OnDownload, *, template_only: bool = False) -> Path:
    """Return the local path of ``hf:owner/repo[@rev][/file]``; download it if necessary.

    ``rev`` is a branch, a tag or a full commit hash; default is the main branch. Write a slash in its name as ``%2F``,
    since a slash starts the file. Cached files of a commit need no network.

    Args:
        spec: the text.
        backend: ``"llama"`` wants a GGUF file, ``"mlx"`` a directory; None prefers a directory.
        on_download: called with the fraction downloaded, 0 to 1; returning False cancels the download.
        template_only: whether a directory with only the files of the chat template is enough, if the repository has
            any.

    Raises:
        ModelSpecError: the text has another form, or does not name exactly one model in its repository.
        ExtraMissingError: the client is not installed.
        ModelNotFoundError: no such repository or file, or it is neither cached nor reachable.
        LoadCancelledError: ``on_download`` returned False.
    """
    match = SPEC.fullmatch(spec)
    if match is None:
        raise ModelSpecError(f"{spec!r} is not of the form hf:owner/repo[@rev][/file.gguf]", spec=spec)
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise ExtraMissingError(
            f"models from the Hugging Face hub need its client: {install_line('hub')}", extra="hub", spec=spec
        ) from error
    # Its retries are told as one error, if they fail. By its own function: it sets its level when a module of it is
    # first used, over what was set before.
    importlib.import_module("huggingface_hub.utils.logging").set_verbosity_error()
    repo, file = match["repo"], match["file"]
    revision = None if match["revision"] is None else unquote(match["revision"])
    progress = _progress_class(on_download, spec)

    def snapshot(patterns: list[str]) -> Path:
        made = huggingface_hub.snapshot_download(repo, revision=revision, allow_patterns=patterns, tqdm_class=progress)
        return Path(made)

    try:
        if file is None and backend != "llama" and (kept := _cached_directory(huggingface_hub, repo, revision)):
            return kept
        if file is None:
            names = _file_names(huggingface_hub, repo, revision)
            if template_only and not set(names).isdisjoint(TEMPLATE_FILES):
                return snapshot(TEMPLATE_FILES)
            file = _choose(names, backend, spec)
        if file is None:
            return snapshot(MLX_FILES)
        if PART.search(file):
            return snapshot([PART.sub("-*.gguf", file)]) / file
        return Path(huggingface_hub.hf_hub_download(repo, file, revision=revision, tqdm_class=progress))
    except errors.GatedRepoError as error:
        raise ModelLoadError(
            f"{repo} is for those who accepted its terms: do so on https://huggingface.co/{repo}, then `hf auth login`",
            spec=spec,
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFoundError(
            f"there is no model {repo} on the Hugging Face hub; look at its name", spec=spec
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFoundError(
            f"{repo} has no revision {revision!r}: name a branch, a tag or the full hash of a commit, with %2F for "
            f"a slash in its name; see https://huggingface.co/{repo}/commits/main",
            spec=spec,
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelNotFoundError(
            f"{spec} is not in the local cache, and the Hugging Face hub can't be reached; go online once to fetch it",
            spec=spec,
        ) from error
    except errors.EntryNotFoundError as error:
        at = "" if revision is None else f" at {revision}; what stands behind a slash is taken for the file"
        place = f"https://huggingface.co/{repo}/tree/{quote(revision or 'main', safe='')}"
        raise ModelNotFoundError(f"{repo} has no file {file}{at}; see {place}", spec=spec) from error
    except ModelLoadError:  # ours already: cancelled, or no one model was named
        raise
    except Exception as error:
        # The network broke off, or the disk is full: what has arrived is kept. What the client lets through of its HTTP
        # library has no base class to rely on: it was requests, then httpx, then httpx2.
        raise ModelLoadError(
            f"{spec} could not be fetched ({type(error).__name__}: {error}); try again, it goes on where it stopped",
            spec=spec,
        ) from error


def _cached_directory(hub: Any, repo: str, revision: str | None) -> Path | None:
    """Return the MLX directory of a commit if the cache contains all of it."""
    if revision is None or not COMMIT.fullmatch(revision):
        return None
    try:
        folder = Path(hub.snapshot_download(repo, revision=revision, local_files_only=True, allow_patterns=MLX_FILES))
        check_mlx_directory(folder, spec="")
    except (hub.errors.LocalEntryNotFoundError, ModelLoadError):  # it isn't there, or was broken off
        return None
    return folder


def _file_names(hub: Any, repo: str, revision: str | None) -> list[str]:
    """Return the file names of a repository, from the cache if the hub is unreachable."""
    try:
        return list(hub.HfApi().list_repo_files(repo, revision=revision))
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError, hub.errors.GatedRepoError):
        raise
    except Exception:  # whatever the client's HTTP library raises without a network; see fetch
        folder = Path(
            hub.snapshot_download(repo, revision=revision, local_files_only=True, allow_patterns=["config.json"])
        )
        return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]


def _choose(names: list[str], backend: str | None, spec: str) -> str | None:
    """Return the GGUF file to load, or None for the whole MLX directory."""
    if backend != "llama" and "config.json" in names and any(name.endswith(".safetensors") for name in names):
        return None
    files = sorted(name for name in names if name.endswith(".gguf") and not Path(name).name.startswith("mmproj"))
    files = [name for name in files if not (part := PART.search(name)) or int(part[1]) == 1]
    preferred = [name for kind in PREFERRED for name in files if kind.lower() in name.lower()]
    if preferred or len(files) == 1:
        return [*preferred, *files][0]
    if files:
        raise ModelSpecError(f"{spec} holds several models; add one of: {', '.join(files)}", spec=spec)
    raise ModelNotFoundError(
        f"{spec} holds no model that can be loaded: neither a GGUF file nor config.json with safetensors", spec=spec
    )


def _progress_class(on_download: OnDownload, spec: str) -> type:
    """Return a progress bar class for the hub's client that displays nothing and reports to us."""
    tqdm: Any = importlib.import_module("tqdm").tqdm

    class Progress(tqdm):  # type: ignore[misc]  # it has no types; they would be a package of their own
        monitor_interval = 0  # no thread that watches over slow bars

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "file": io.StringIO(), "disable": False})

        def update(self, n: float | None = 1) -> Any:
            shown = super().update(n)
            if self.total and not on_download(min(self.n / self.total, 1.0)):
                raise LoadCancelledError(f"downloading {spec} was cancelled", spec=spec)
            return shown

    return Progress
