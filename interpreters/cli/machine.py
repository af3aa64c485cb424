"""What kind of machine this is, and which install lines fit it: facts are gathered in one place, judged in another."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys

from attrs import frozen

WHEELS = "https://abetlen.github.io/llama-cpp-python/whl/"
"""The extra package indexes that llama-cpp-python's README documents (0.3.36), each named after what it was built for:
``cpu``, ``metal``, ``cu124``, ..."""

CUDA_WHEELS = ((11, 8), (12, 1), (12, 2), (12, 3), (12, 4), (12, 5), (13, 0), (13, 2))
"""CUDA versions with an index, by the same README. A driver runs what was built for its own version or an older one."""

WHEEL_PYTHONS = ((3, 10), (3, 11), (3, 12))
"""For which Pythons the same README promises wheels with CUDA or Metal; with others pip compiles."""

MLX_GLIBC = (2, 35)
"""The oldest that the Linux wheels of MLX run on (their tag is ``manylinux_2_35``)."""

NVIDIA_SECONDS = 15
"""nvidia-smi takes some seconds on a machine with many GPUs, and hangs with a driver that is broken."""


@frozen
class Machine:
    """What an install line depends on."""

    system: str
    """``Linux``, ``Darwin``, ..."""
    processor: str
    """``x86_64``, ``arm64``, ..."""
    python: tuple[int, int]
    glibc: tuple[int, int] | None = None
    """None where there is another C library."""
    nvidia: tuple[str, ...] = ()
    """Names of the GPUs that the NVIDIA driver reports."""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver runs."""

    @property
    def metal(self) -> bool:
        """Whether there is a GPU that Metal drives well: Apple silicon."""
        return self.system == "Darwin" and self.processor == "arm64"


@frozen
class InstallLine:
    """How to install one backend here."""

    backend: str
    command: str
    note: str = ""


def install_lines(machine: Machine) -> tuple[InstallLine, ...]:
    """The install line of each backend that fits the machine."""
    return (llama_line(machine), mlx_line(machine))


def llama_line(machine: Machine) -> InstallLine:
    """llama.cpp: from the extra index that fits, else compiled."""
    wheels = machine.python in WHEEL_PYTHONS
    if machine.metal:
        if wheels:
            return _from_index("metal", "with Metal")
        return _compiled("METAL", "with Metal")
    if machine.nvidia:
        fitting = [version for version in CUDA_WHEELS if machine.cuda is not None and version <= machine.cuda]
        if wheels and fitting:
            major, minor = fitting[-1]
            return _from_index(f"cu{major}{minor}", f"with CUDA {major}.{minor}")
        return _compiled("CUDA", "with CUDA, whose toolkit (nvcc) has to be installed")
    return _from_index("cpu", "for the CPU; without the index it is compiled, which takes minutes")


def _from_index(index: str, note: str) -> InstallLine:
    # --prefer-binary: else pip takes a newer release from the main index, which has no wheel, and compiles it.
    return InstallLine("llama", f"pip install 'cogstep[llama]' --prefer-binary --extra-index-url {WHEELS}{index}", note)


def _compiled(option: str, note: str) -> InstallLine:
    return InstallLine("llama", f"CMAKE_ARGS=-DGGML_{option}=on pip install 'cogstep[llama]'", f"compiled, {note}")


def mlx_line(machine: Machine) -> InstallLine:
    """MLX: wheels for Apple silicon and for Linux with a C library that is new enough."""
    command = "pip install 'cogstep[mlx]'"
    if machine.metal:
        return InstallLine("mlx", command, "wheels, with Metal")
    if machine.system == "Linux" and machine.glibc is not None and machine.glibc >= MLX_GLIBC:
        return InstallLine("mlx", command, "wheels, for the CPU")
    return InstallLine("mlx", command, "there is no wheel for this machine, so that it would have to be compiled")


def this_machine() -> Machine:
    """The machine that this runs on."""
    nvidia, cuda = _nvidia()
    return Machine(
        platform.system(), platform.machine(), (sys.version_info[0], sys.version_info[1]), _glibc(), nvidia, cuda
    )


def _glibc() -> tuple[int, int] | None:
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):  # another C library doesn't know the question
        return None
    match = re.fullmatch(r"glibc (\d+)\.(\d+).*", name)
    return (int(match[1]), int(match[2])) if match else None


def _nvidia() -> tuple[tuple[str, ...], tuple[int, int] | None]:
    """The GPUs that ``nvidia-smi`` lists, and the CUDA version of its heading."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), None
    names = _said_by(program, "--query-gpu=name", "--format=csv,noheader")
    match = re.search(r"CUDA Version: (\d+)\.(\d+)", _said_by(program))
    return tuple(names.splitlines()), (int(match[1]), int(match[2])) if match else None


def _said_by(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""
