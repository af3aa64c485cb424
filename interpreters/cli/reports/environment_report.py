"""Examine this machine for ``cogstep doctor``, choose the install lines for it, and format both."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.cli.options.arguments import version as own_version
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import StatusLine
from interpreters.toolbox.shell.sandbox import shell_report
from runtime.children.ending import signal_name
from runtime.files import state_directory
from runtime.models.installation import install_line
from runtime.models.specs import PACKAGES, BackendName, is_installed
from runtime.programs.installed_programs import InstalledProgram, installed_programs

NAMES: Mapping[BackendName, str] = {"llama": "llama.cpp", "mlx": "MLX"}
DISTRIBUTIONS: Mapping[BackendName, tuple[str, ...]] = {"llama": ("llama-cpp-python",), "mlx": ("mlx-lm", "mlx")}

WHEELS = "https://abetlen.github.io/llama-cpp-python/whl/"
"""The extra package indexes in the README of llama-cpp-python (0.3.36), named by their build: ``cpu``, ``metal``,
``cu124``, ...
"""

CUDA_WHEELS = ((11, 8), (12, 1), (12, 2), (12, 3), (12, 4), (12, 5), (13, 0), (13, 2))
"""CUDA versions with an index, from the same README. A driver runs builds for its own version or an older one."""

WHEEL_PYTHONS = ((3, 10), (3, 11), (3, 12))
"""Python versions with CUDA or Metal wheels in the same README. For others pip compiles."""

MLX_GLIBC = (2, 35)
"""The oldest glibc for MLX's Linux wheels (tag ``manylinux_2_35``)."""

QUESTION = "What is 17 * 23?"
ANSWER = "391"
"""The expected answer, since a broken backend may produce nonsense without an error."""

DOING = {"import": "importing the package", "load": "loading the model", "answer": "answering"}
"""What the child does at each stage."""

NVIDIA_SECONDS = 15
"""Seconds for nvidia-smi. It is slow on machines with many GPUs, and hangs with a broken driver."""


@frozen
class Machine:
    """The properties of a machine that decide its install lines."""

    system: str
    """``Linux``, ``Darwin``, ..."""
    processor: str
    """``x86_64``, ``arm64``, ..."""
    python: tuple[int, int]
    glibc: tuple[int, int] | None = None
    """None with another C library."""
    nvidia: tuple[str, ...] = ()
    """Names of the GPUs that the NVIDIA driver reports."""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver supports."""

    @property
    def metal(self) -> bool:
        """Whether it has a GPU with good Metal support: Apple silicon."""
        return self.system == "Darwin" and self.processor == "arm64"


@frozen
class InstallLine:
    """How to install one backend here."""

    backend: str
    command: str
    note: str = ""


def install_lines(machine: Machine) -> tuple[InstallLine, ...]:
    """Return the install line of each backend for the machine."""
    return (llama_line(machine), mlx_line(machine))


def llama_line(machine: Machine) -> InstallLine:
    """llama.cpp: from the matching extra index, or compiled."""
    wheels = machine.python in WHEEL_PYTHONS
    if machine.metal:
        return _from_index("metal", "with Metal") if wheels else _build_line("METAL", "with Metal")
    if machine.nvidia:
        fitting = [version for version in CUDA_WHEELS if machine.cuda is not None and version <= machine.cuda]
        if wheels and fitting:
            major, minor = fitting[-1]
            return _from_index(f"cu{major}{minor}", f"with CUDA {major}.{minor}")
        return _build_line("CUDA", "with CUDA, whose toolkit (nvcc) has to be installed")
    return _from_index("cpu", "for the CPU; without the index it is compiled, which takes minutes")


def _from_index(index: str, note: str) -> InstallLine:
    return InstallLine("llama", install_line("llama", index=f"{WHEELS}{index}"), note)


def _build_line(option: str, note: str) -> InstallLine:
    return InstallLine(
        "llama", install_line("llama", environment=f"CMAKE_ARGS=-DGGML_{option}=on"), f"compiled, {note}"
    )


def mlx_line(machine: Machine) -> InstallLine:
    """MLX: wheels for Apple silicon, and for Linux with a new enough C library."""
    command = install_line("mlx")
    if machine.metal:
        return InstallLine("mlx", command, "wheels, with Metal")
    if machine.system == "Linux" and machine.glibc is not None and machine.glibc >= MLX_GLIBC:
        return InstallLine("mlx", command, "wheels, for the CPU")
    return InstallLine("mlx", command, "there is no wheel for this machine, so that it would have to be compiled")


def this_machine() -> Machine:
    """Return the properties of this machine."""
    python = (sys.version_info[0], sys.version_info[1])
    return Machine(platform.system(), platform.machine(), python, _glibc(), *_nvidia())


def _glibc() -> tuple[int, int] | None:
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):  # another C library doesn't know the question
        return None
    match = re.fullmatch(r"glibc (\d+)\.(\d+).*", name)
    return (int(match[1]), int(match[2])) if match else None


def _nvidia() -> tuple[tuple[str, ...], tuple[int, int] | None]:
    """Return the GPUs that ``nvidia-smi`` lists, and the CUDA version in its heading."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), None
    names = _run_program(program, "--query-gpu=name", "--format=csv,noheader")
    match = re.search(r"CUDA Version: (\d+)\.(\d+)", _run_program(program))
    return tuple(names.splitlines()), (int(match[1]), int(match[2])) if match else None


def _run_program(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""


# ---------------------------------------------------------------------------------------------- whether a backend works

# A backend is tried in a child process: it loads the shipped model and asks it one question. The child prints one JSON
# object per line on stdout: first each stage that it starts, at the end its finding. So a crash, mostly in native code,
# is a finding about the current stage. The parent reads these lines.


@frozen
class Finding:
    """The child's finding, or how its process ended."""

    works: bool
    problem: str = ""
    """One line; empty if it works."""
    device: str = ""
    answer: str = ""
    tool_called: bool = False
    load_seconds: float = 0.0
    answer_seconds: float = 0.0


def probe(backend: str, seconds: float) -> Finding:
    """Try a backend in a child process, which is killed after ``seconds``."""
    root = Path(__file__).resolve().parents[3]
    # -P and the path at the end: a file named json.py in the user's directory must not pass for Python's own.
    start = f"import sys; sys.path.append({str(root)!r}); from {__name__} import child; child({backend!r})"
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Finding(False, f"it took longer than {seconds:g} s, {_doing(late.stdout or b'')}")
    return understand(run.returncode, run.stdout, run.stderr)


def understand(code: int, out: bytes, err: bytes) -> Finding:
    """Interpret the child's exit code and output."""
    for line in reversed(_lines(out)):
        if "found" in line:
            return Finding(**line["found"])
    doing = _doing(out)
    if code < 0:
        return Finding(False, f"its process was killed by {signal_name(-code)} while {doing}")
    said = err.decode("utf-8", "replace").strip().splitlines()
    return Finding(False, f"its process ended with code {code} while {doing}{': ' + said[-1] if said else ''}")


def _lines(out: bytes) -> list[dict[str, Any]]:
    found = []
    for line in out.decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):  # native code prints to stdout as it likes
            found.append(json.loads(line))
    return [value for value in found if isinstance(value, dict)]


def _doing(out: bytes) -> str:
    return DOING[next((line["stage"] for line in reversed(_lines(out)) if "stage" in line), "import")]


def child(backend: BackendName) -> None:
    """Run the test in the child process and print the finding. Exceptions become a finding too."""
    try:
        found = _try(backend)
    except Exception as error:
        message = shown_name(str(error), LONGEST_LINE)
        found = Finding(False, message if " " in message else f"{type(error).__name__}: {message}")
    _print_json({"found": asdict(found)})


def _try(backend: BackendName) -> Finding:
    _print_json({"stage": "import"})
    from interpreters.agents.agent import Agent
    from interpreters.toolbox import standard_tools
    from runtime import load_model
    from runtime.models.specs import device_of

    device = device_of(backend)
    _print_json({"stage": "load"})
    begun = time.monotonic()
    model = load_model(backend=backend)
    loaded = time.monotonic()
    _print_json({"stage": "answer"})
    with model, tempfile.TemporaryDirectory() as empty, Agent(model, tools=standard_tools(Path(empty))) as agent:
        result = agent.run(QUESTION)
    answered = time.monotonic()
    text = shown_name(result.text)
    right = result.ok and ANSWER in text
    problem = "" if right else f"asked {QUESTION!r}, it answered {text or shown_name(str(result.outcome))!r}"
    return Finding(right, problem, device, text, bool(result.calls), loaded - begun, answered - loaded)


def _print_json(value: dict[str, Any]) -> None:
    # Straight to the descriptor: what stands in a buffer when native code crashes is lost.
    os.write(1, (json.dumps(value) + "\n").encode())


# ------------------------------------------------------------------------------------------------- what works on it


@frozen
class BackendReport:
    """The findings about one backend."""

    backend: BackendName
    installed: bool
    versions: Mapping[str, str]
    finding: Finding | None = None
    """None if it is not installed."""

    @property
    def works(self) -> bool:
        return self.finding is not None and self.finding.works


@frozen
class DirectoryReport:
    """A directory that cogstep uses or will use."""

    path: str
    exists: bool
    writable: bool
    """Or can be created."""


@frozen
class EnvironmentReport:
    """All findings of the doctor."""

    cogstep: str
    python: str
    platform: str
    machine: Machine
    backends: tuple[BackendReport, ...]
    hub_version: str | None
    """Version of huggingface_hub; None if it is not installed."""
    hub_cache: DirectoryReport
    state: DirectoryReport
    install: tuple[InstallLine, ...]
    shell: str = ""
    """The shell of the tool ``Bash``, and whether it can be confined."""
    shell_found: bool = False
    programs: tuple[InstalledProgram, ...] = ()
    """Command lines of other agents that can serve as models."""

    @property
    def healthy(self) -> bool:
        """Whether at least one backend works."""
        return any(report.works for report in self.backends)


def examine(seconds: float, status: StatusLine) -> EnvironmentReport:
    """Examine the machine. Each installed backend is tried for at most ``seconds``."""
    status.spin("looking at this machine")
    machine = this_machine()
    backends = []
    for backend in PACKAGES:
        finding = None
        if is_installed(backend):
            status.spin(f"trying {NAMES[backend]}")
            finding = probe(backend, seconds)
        versions = {name: found for name in DISTRIBUTIONS[backend] if (found := _version(name)) is not None}
        backends.append(BackendReport(backend, is_installed(backend), versions, finding))
    status.spin("trying the shell")
    shell_found, shell = shell_report()
    status.spin("asking claude and codex for their versions")
    return EnvironmentReport(
        own_version(),
        f"{platform.python_version()} ({platform.python_implementation()})",
        platform.platform(),
        machine,
        tuple(backends),
        _version("huggingface_hub"),
        examine_directory(hub_cache()),
        examine_directory(state_directory()),
        install_lines(machine),
        shell,
        shell_found,
        installed_programs(),
    )


def hub_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return huggingface_hub's download folder, by its documented variables (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME)."""
    environment = os.environ if environment is None else environment
    for name, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if environment.get(name):
            return Path(environment[name]).expanduser() / below
    return Path("~/.cache/huggingface/hub").expanduser()


def examine_directory(path: Path) -> DirectoryReport:
    """Check a directory, without creating anything."""
    anchor = path
    try:
        while not anchor.exists() and anchor != anchor.parent:  # where creating it would begin
            anchor = anchor.parent
    except OSError:  # a name that no disk can have, or a loop of links
        return DirectoryReport(shown_name(str(path)), False, False)
    return DirectoryReport(str(path), path.is_dir(), anchor.is_dir() and os.access(anchor, os.W_OK | os.X_OK))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


# ---------------------------------------------------------------------------------------------------------- as text

GOOD, BAD, NEUTRAL = "✓", "✗", "·"


def report_lines(report: EnvironmentReport) -> Iterator[tuple[str, Style]]:
    yield f"{NEUTRAL} cogstep {report.cogstep}, Python {report.python}, {report.platform}", "plain"
    yield from map(_backend_line, report.backends)
    yield f"{NEUTRAL} GPU: {_gpu_text(report.machine)}", "plain"
    install_hub = f"{install_line('hub')} to use hf: models"
    hub = f"huggingface_hub {report.hub_version}" if report.hub_version else install_hub
    yield _place_line("models", report.hub_cache, f"; {hub}")
    yield _place_line("state", report.state, "")
    yield f"{GOOD if report.shell_found else NEUTRAL} shell: {report.shell}", "plain"
    yield from map(_program_line, report.programs)
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
    loaded = f"loaded in {finding.load_seconds:.2f} s"
    answered = f"answered {finding.answer!r} in {finding.answer_seconds:.2f} s"
    return f"{GOOD} {name} ({versions}) on the {finding.device}: works; {loaded}, {answered}", "plain"


def _program_line(program: InstalledProgram) -> tuple[str, Style]:
    if not program.path:
        return f"{NEUTRAL} {program.name}: {program.problem}", "plain"
    where = shown_name(program.path)
    if program.problem:
        return f"{BAD} {program.name}: {where} {program.problem}", "error"
    return f"{GOOD} {program.name} {program.version}: {where}", "plain"


def _gpu_text(machine: Machine) -> str:
    if machine.metal:
        return "Apple silicon, with Metal"
    if machine.nvidia:
        cuda = f", driver for CUDA up to {machine.cuda[0]}.{machine.cuda[1]}" if machine.cuda else ""
        return f"{', '.join(machine.nvidia)}{cuda}"
    return "none seen (neither an NVIDIA driver nor Metal)"


def _place_line(name: str, where: DirectoryReport, more: str) -> tuple[str, Style]:
    if not where.writable:
        return f"{BAD} {name}: {where.path} can't be written; see to its permissions{more}", "error"
    mark, there = (GOOD, "") if where.exists else (NEUTRAL, " (not there yet)")
    return f"{mark} {name}: {where.path}{there}{more}", "plain"
