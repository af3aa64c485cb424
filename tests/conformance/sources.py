"""Where the chat templates of others come from: distributions on PyPI that carry them, at pinned versions.

==========  ==================  =======================================================
llama.cpp   llama-cpp-python    ``models/templates``, which llama.cpp's tests are run on
trl/        trl                 those that it recognises models by, many of 2026
axolotl/    axolotl             those that it trains with, EXAONE 4 among them
vllm/       vllm                ``examples/tool_chat_template_*``
restated/   this project        what others do, in templates of our own: see ``tests/runtime/chat_templates.py``
==========  ==================  =======================================================

They are downloaded once, by pip, into a folder that git ignores, and never committed: their licences are their
publishers'.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Literal

from attrs import frozen

from tests.runtime import chat_templates


@frozen
class Source:
    """A distribution that carries templates."""

    prefix: str
    """Of the names of its templates."""
    package: str
    version: str
    kind: Literal["wheel", "sdist", "tree"]
    """``tree``: a source distribution that pip unpacks and then fails on, as its setup needs packages that are large
    and of no use here."""
    size: str
    pattern: str
    """Of the paths of templates in it."""
    without: str = ""
    """Part of the names of templates that are left out."""

    def folder(self, cache: Path) -> Path:
        """Where its templates are kept."""
        return cache / f"{self.package}-{self.version}"


SOURCES = (
    Source("", "llama-cpp-python", "0.3.36", "sdist", "77 MB", "*/vendor/llama.cpp/models/templates/*.jinja"),
    # What ends in "_training" is the same once more, with marks for what is trained on.
    Source("trl/", "trl", "1.16.0", "wheel", "1 MB", "trl/chat_templates/*.jinja", without="_training"),
    Source("axolotl/", "axolotl", "0.19.0", "wheel", "2 MB", "axolotl/utils/chat_templates/templates/*.jinja"),
    Source("vllm/", "vllm", "0.33.0", "tree", "34 MB", "*/examples/tool_chat_template_*.jinja"),
)

RESTATED = {
    "restated/Hermes tool_use": chat_templates.GOES_THROUGH_TOOLS,
    "restated/mistral_parallel": chat_templates.INSTRUCTS_THE_LAST,
    "restated/EXAONE 4": chat_templates.BARS_IN_BRACKETS,
    "restated/Olmo 3": chat_templates.CALLS_A_LINE,
    "restated/Hunyuan-A13B": chat_templates.LEADS_ANSWERS,
}
"""Templates of our own that do what those named do, where it matters."""


class SourceError(Exception):
    """A distribution can't be had, or holds no templates."""


def templates(cache: Path, wanted: str = "") -> Iterator[tuple[str, str]]:
    """Name and source of every template, or of those whose names begin as ``wanted`` does.

    Raises:
        SourceError: some can't be had.
    """
    for source in SOURCES:
        if not wanted or (source.prefix and wanted.startswith(source.prefix)):
            for file in sorted(_fetched(source, cache).glob("*.jinja")):
                yield source.prefix + file.stem, file.read_text("utf-8")
    yield from RESTATED.items()


def _fetched(source: Source, cache: Path) -> Path:
    """The folder with the templates of a distribution; it is downloaded if they are not there."""
    folder = source.folder(cache)
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    kept = next(cache.glob(f"{source.package.replace('-', '_')}-{source.version}*"), None)
    downloads = cache / "download"
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir()
    try:
        if kept is None:
            print(
                f"Downloading {source.package} {source.version} ({source.size}, once) ...", file=sys.stderr, flush=True
            )
            _download(source, downloads)
        new = downloads / "templates"
        new.mkdir()
        for name, content in _members(source, downloads if kept is None else kept):
            if not source.without or source.without not in name:
                (new / name).write_bytes(content)
        if not any(new.iterdir()):
            raise SourceError(f"{source.package} {source.version} could not be downloaded, or holds no templates")
        new.rename(folder)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)
    return folder


def _download(source: Source, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    if source.kind == "wheel":
        command += ["--only-binary", ":all:"]
    elif source.kind == "sdist":
        command += ["--no-binary", source.package]
    else:
        command += ["--no-binary", source.package, "--no-build-isolation", "--no-clean"]
    done = subprocess.run(
        [*command, "--dest", str(folder), f"{source.package}=={source.version}"],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and source.kind != "tree":
        raise SourceError(f"pip can't download {source.package} {source.version}: {done.stderr.strip()[-2000:]}")


def _members(source: Source, place: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the templates in an archive, or in those of a folder, and in what was unpacked there."""
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    for file in files:
        if file.name.endswith(".tar.gz"):
            with tarfile.open(file) as tar:
                for member in tar:
                    content = tar.extractfile(member) if fnmatch(member.name, source.pattern) else None
                    if content is not None:
                        yield PurePosixPath(member.name).name, content.read()
        elif file.suffix == ".whl":
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    if fnmatch(name, source.pattern):
                        yield PurePosixPath(name).name, archive.read(name)
        elif source.kind == "tree" and fnmatch(str(file), source.pattern) and file.is_file():
            yield file.name, file.read_bytes()
