"""``cogstep doctor``: what is installed, what works, what to install."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import asdict, frozen

from interpreters.cli.errors import ANSWERED, UNANSWERED
from interpreters.cli.machine import InstallLine, Machine, install_lines, this_machine
from interpreters.cli.options import version as own_version
from interpreters.cli.paths import nearest_existing, state_directory
from interpreters.cli.probe import Finding, probe
from interpreters.cli.render import Style
from interpreters.cli.terminal import StatusLine, Terminal
from runtime.specs import PACKAGES, BackendName, installed

NAMES: Mapping[BackendName, str] = {"llama": "llama.cpp", "mlx": "MLX"}
DISTRIBUTIONS: Mapping[BackendName, tuple[str, ...]] = {"llama": ("llama-cpp-python",), "mlx": ("mlx-lm", "mlx")}


@frozen
class BackendReport:
    """One backend."""

    backend: BackendName
    installed: bool
    versions: Mapping[str, str]
    finding: Finding | None = None
    """None when it is not installed."""

    @property
    def works(self) -> bool:
        return self.finding is not None and self.finding.works


@frozen
class Place:
    """A directory that is, or will be, used."""

    path: str
    exists: bool
    writable: bool
    """Or can be created."""


@frozen
class Report:
    """All that the doctor found."""

    cogstep: str
    python: str
    platform: str
    machine: Machine
    backends: tuple[BackendReport, ...]
    hub_version: str | None
    """Of huggingface_hub; None when it is not installed."""
    hub_cache: Place
    state: Place
    install: tuple[InstallLine, ...]

    @property
    def healthy(self) -> bool:
        """Whether at least one backend works."""
        return any(report.works for report in self.backends)


def doctor(options: argparse.Namespace) -> int:
    """Look, say what was found, and return the exit code."""
    if options.tools is not None:
        from interpreters.cli.doctor_tools import doctor_tools

        return doctor_tools(options.tools, as_json=options.json)
    out = Terminal(sys.stdout)
    status = StatusLine(Terminal(sys.stderr))
    try:
        report = examine(options.seconds, status)
    finally:
        status.clear()
    if options.json:
        print(json.dumps({"healthy": report.healthy, **asdict(report)}, ensure_ascii=False, indent=2))
    else:
        for text, style in report_lines(report):
            out.write(f"{text}\n", style)
    return ANSWERED if report.healthy else UNANSWERED


def examine(seconds: float, status: StatusLine) -> Report:
    """Gather everything; each installed backend may take so many seconds."""
    status.spin("looking at this machine")
    machine = this_machine()
    backends = []
    for backend in PACKAGES:
        finding = None
        if installed(backend):
            status.spin(f"trying {NAMES[backend]}")
            finding = probe(backend, seconds)
        versions = {name: found for name in DISTRIBUTIONS[backend] if (found := _version(name)) is not None}
        backends.append(BackendReport(backend, installed(backend), versions, finding))
    return Report(
        own_version(),
        f"{platform.python_version()} ({platform.python_implementation()})",
        platform.platform(),
        machine,
        tuple(backends),
        _version("huggingface_hub"),
        place(hub_cache()),
        place(state_directory()),
        install_lines(machine),
    )


def hub_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Where huggingface_hub keeps downloads, by its documented variables (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME)."""
    environment = os.environ if environment is None else environment
    if environment.get("HF_HUB_CACHE"):
        return Path(environment["HF_HUB_CACHE"]).expanduser()
    if environment.get("HF_HOME"):
        return Path(environment["HF_HOME"]).expanduser() / "hub"
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "huggingface" / "hub"


def place(path: Path) -> Place:
    """What can be done with a directory; nothing is created to find out."""
    anchor = nearest_existing(path)
    return Place(str(path), path.is_dir(), anchor.is_dir() and os.access(anchor, os.W_OK | os.X_OK))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


# ---------------------------------------------------------------------------------------------------------- as text

GOOD, BAD, NEUTRAL = "✓", "✗", "·"


def report_lines(report: Report) -> Iterator[tuple[str, Style]]:
    """The report for people: each line with its style."""
    yield f"{NEUTRAL} cogstep {report.cogstep}, Python {report.python}, {report.platform}", "plain"
    for backend in report.backends:
        yield _backend_line(backend)
    yield f"{NEUTRAL} GPU: {_gpu_text(report.machine)}", "plain"
    hub = (
        f"huggingface_hub {report.hub_version}"
        if report.hub_version
        else "pip install 'cogstep[hub]' to use hf: models"
    )
    yield _place_line("models", report.hub_cache, f"; {hub}")
    yield _place_line("state", report.state, "")
    yield "", "plain"
    yield "Install lines for this machine:", "plain"
    for line in report.install:
        yield f"  {line.command}", "plain"
        if line.note:
            yield f"    {line.note}", "dim"
    if not report.healthy:
        yield "", "plain"
        yield f"{BAD} no backend works: install one with a line above", "error"


def _backend_line(report: BackendReport) -> tuple[str, Style]:
    name = NAMES[report.backend]
    if report.finding is None:
        return f"{NEUTRAL} {name}: not installed", "plain"
    versions = ", ".join(f"{package} {found}" for package, found in report.versions.items())
    finding = report.finding
    if not finding.works:
        return f"{BAD} {name} ({versions}): {finding.problem}", "error"
    return (
        f"{GOOD} {name} ({versions}) on the {finding.device}: works; loaded in {finding.load_seconds:.2f} s, "
        f"answered {finding.answer!r} in {finding.answer_seconds:.2f} s"
    ), "plain"


def _gpu_text(machine: Machine) -> str:
    if machine.metal:
        return "Apple silicon, with Metal"
    if machine.nvidia:
        cuda = f", driver for CUDA up to {machine.cuda[0]}.{machine.cuda[1]}" if machine.cuda else ""
        return f"{', '.join(machine.nvidia)}{cuda}"
    return "none seen (neither an NVIDIA driver nor Metal)"


def _place_line(name: str, where: Place, more: str) -> tuple[str, Style]:
    if not where.writable:
        return f"{BAD} {name}: {where.path} can't be written; see to its permissions{more}", "error"
    return (
        f"{GOOD if where.exists else NEUTRAL} {name}: {where.path}{'' if where.exists else ' (not there yet)'}{more}",
        "plain",
    )
