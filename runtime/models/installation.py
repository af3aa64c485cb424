"""How cogstep was installed here, and the command that adds an extra to this installation.

``pip install 'cogstep[mlx]'`` is right for one kind of installation only. A checkout, a wheel or a repository has to be
named again, and by the tool that manages the environment of the running interpreter: pip, uv, ``uv tool`` or pipx.
Sources: PEP 610 (``direct_url.json``), uv's ``uv-receipt.toml`` and pipx's ``pipx_metadata.json``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "cogstep"

Manager = Literal["pip", "uv", "uv tool", "pipx"]

ROOT = Path(__file__).resolve().parent.parent.parent
"""The directory of the packages: of a checkout, or ``site-packages``."""


class Installation(NamedTuple):  # not of attrs, which `cogstep --help` need not load
    """The source of the installed package, and the tool that manages its environment."""

    manager: Manager
    python: str
    """The running interpreter. Empty if ``pip`` on the PATH installs into its environment."""
    path: str = ""
    """The checkout or wheel that it was installed from; empty if it came from elsewhere."""
    url: str = ""
    """The repository or archive that it was installed from, with the scheme and the commit."""
    editable: bool = False
    extras: frozenset[str] = frozenset()
    """The extras that have to be named again, since the tool replaces the whole environment."""
    requirements: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The packages of each extra, to install by themselves. Filled if the checkout or wheel is gone."""


def install_line(*extras: str, index: str = "", environment: str = "", here: Installation | None = None) -> str:
    """Return the shell command that adds extras to this installation.

    Args:
        extras: the names of extras.
        index: an extra package index, with wheels that are preferred to a newer source.
        environment: assignments of environment variables for the command, such as ``CMAKE_ARGS=-DGGML_METAL=on``.
        here: the installation; None for the running one.
    """
    here = installation() if here is None else here
    words = {
        "pip": [here.python, "-m", "pip", "install"] if here.python else ["pip", "install"],
        "uv": ["uv", "pip", "install", *(["--python", here.python] if here.python else [])],
        "uv tool": ["uv", "tool", "install"],
        "pipx": ["pipx", "install", "--force"],
    }[here.manager]
    if here.requirements:
        words = ["pipx", "inject", NAME] if here.manager == "pipx" else words
        what = list(dict.fromkeys(one for extra in extras for one in here.requirements.get(extra, ())))
    else:
        named = f"[{','.join(sorted({*extras, *here.extras}))}]"
        what = [f"{here.path}{named}" if here.path else f"{NAME}{named}{' @ ' + here.url if here.url else ''}"]
        if here.editable:
            words.append("-e" if here.manager in ("pip", "uv") else "--editable")
    line = shlex.join([*words, *what, *_index_words(here.manager, index)])
    return f"{environment} {line}".strip()


def install_lines(*extras: str) -> str:
    """Return the commands for extras of which one is enough."""
    return " or ".join(install_line(extra) for extra in extras)


def _index_words(manager: Manager, index: str) -> list[str]:
    if not index:
        return []
    # --prefer-binary: else pip takes a newer release from the main index, which has no wheel, and compiles it. uv asks
    # an extra index first by itself.
    words = ["--extra-index-url", index]
    if manager == "pip":
        return ["--prefer-binary", *words]
    return ["--pip-args=" + shlex.join(["--prefer-binary", *words])] if manager == "pipx" else words


@cache
def installation() -> Installation:
    """Return how the running cogstep is installed. Reads a few small files, once."""
    from importlib.metadata import PackageNotFoundError, distribution  # takes longer than the rest together

    try:
        found: Distribution | None = distribution(NAME)
    except PackageNotFoundError:
        found = None
    return read_installation(found, ROOT, Path(sys.prefix), sys.executable)


def read_installation(found: Distribution | None, root: Path, prefix: Path, python: str) -> Installation:
    """Return an installation.

    Args:
        found: the installed distribution, or None.
        root: the directory of the running packages.
        prefix: the directory of the interpreter's environment.
        python: the path of the interpreter.
    """
    manager, extras = _manager_of(prefix)
    path, url, editable = _source_of(found)
    if found is None and (root / "pyproject.toml").is_file():  # a checkout that is run, but not installed
        path, editable = str(root), True
    requirements = _requirements_of(found) if found is not None and path and not Path(path).exists() else {}
    if requirements and manager == "uv tool":  # it would look for what is gone
        manager, extras = "uv", frozenset()
    is_usual = _is_on_path("uv" if manager == "uv" else "pip", prefix, python)
    return Installation(manager, "" if is_usual else python, path, url, editable, extras, requirements)


def _source_of(found: Distribution | None) -> tuple[str, str, bool]:
    """Return the path or the URL that a distribution was installed from, and whether as editable; PEP 610."""
    told = _read_json(None if found is None else found.read_text("direct_url.json"))
    url = told.get("url")
    if not isinstance(url, str):
        return "", "", False
    parts = urlsplit(url)
    if parts.scheme == "file" and "vcs_info" not in told:
        return unquote(parts.path), "", bool(_part(told, "dir_info").get("editable"))
    host = parts.netloc.rpartition("@")[2] if parts.scheme.startswith("http") else parts.netloc  # no password
    url = urlunsplit(parts._replace(netloc=host))
    vcs = _part(told, "vcs_info")
    if vcs:
        commit = vcs.get("requested_revision") or vcs.get("commit_id") or ""
        url = f"{vcs.get('vcs', 'git')}+{url}{'@' + commit if commit else ''}"
    below = told.get("subdirectory")
    return "", f"{url}#subdirectory={below}" if below else url, False


def _manager_of(prefix: Path) -> tuple[Manager, frozenset[str]]:
    """Return the tool that manages an environment, and the extras that it was asked for if it replaces environments."""
    receipt = _read_toml(prefix / "uv-receipt.toml")
    if receipt:
        asked = _part(receipt, "tool").get("requirements")
        ours = [one for one in asked if isinstance(one, dict) and one.get("name") == NAME] if asked else []
        return "uv tool", frozenset(str(extra) for one in ours for extra in one.get("extras", ()))
    metadata = _read_json(_read_text(prefix / "pipx_metadata.json"))
    if metadata:
        named = re.search(r"\[([^\]]*)\]", str(_part(metadata, "main_package").get("package_or_url", "")))
        return "pipx", frozenset(filter(None, named[1].replace(" ", "").split(","))) if named else frozenset()
    if find_spec("pip") is None and (shutil.which("uv") or "uv = " in _read_text(prefix / "pyvenv.cfg")):
        return "uv", frozenset()
    return "pip", frozenset()


def _is_on_path(program: str, prefix: Path, python: str) -> bool:
    """Whether a program without further words installs into this environment."""
    if program == "uv":
        return os.environ.get("VIRTUAL_ENV", "") == str(prefix)
    found = shutil.which(program)
    return found is not None and Path(found).parent == Path(python).parent


EXTRA = re.compile(r"""(?:\band\s+)?\bextra\s*==\s*["']([^"']+)["']""")


def _requirements_of(found: Distribution) -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra, with the rest of their conditions."""
    extras: dict[str, list[str]] = {}
    for line in found.requires or ():
        package, _, condition = line.partition(";")
        match = EXTRA.search(condition)
        if match is not None:
            rest = EXTRA.sub("", condition).strip()
            extras.setdefault(match[1], []).append(f"{package.strip()}; {rest}" if rest else package.strip())
    return {extra: tuple(packages) for extra, packages in extras.items()}


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _read_json(text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}
