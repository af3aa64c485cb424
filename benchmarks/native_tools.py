"""llama.cpp's own programs, to measure beside: built once from the source of the llama-cpp-python that is installed.

Its source distribution carries the whole tree of llama.cpp. Only the programs are compiled from it; they are linked
with the libraries of the installed package (``native_tools.cmake``), so that both sides run the very same code. The
build takes cmake, a C++ compiler, 0.5 GB in ``benchmarks/.llama.cpp/``, and some minutes.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.table import Progress

DIRECTORY = Path(__file__).resolve().parent / ".llama.cpp"
PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-server")

OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DLLAMA_BUILD_COMMON=ON", "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_SERVER=ON", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_CURL=OFF",
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
)  # fmt: skip
"""No page, no downloads: what is left is what is measured. The programs find each other wherever the folder stands."""

STEP = re.compile(r"^\[\s*(\d+%|\d+/\d+)\]")
"""How make and ninja begin a line of progress."""


class BuildError(Exception):
    """llama.cpp's programs can't be had here; the message says why."""


def program(name: str) -> Path:
    """Where one of ``PROGRAMS`` is, once ``prepare`` has returned."""
    return _home() / "build" / "bin" / name


def prepare(say: Progress, jobs: int | None = None, programs: Sequence[str] = PROGRAMS) -> None:
    """Build those of ``programs`` that are not there yet.

    Ctrl-C ends the compiler too; what is compiled by then is kept.

    Raises:
        BuildError: something is missing, or a step failed.
    """
    if all(program(name).is_file() for name in programs):
        return
    package = find_spec("llama_cpp")
    if package is None or not package.submodule_search_locations:
        raise BuildError("llama-cpp-python is not installed: pip install 'cogstep[llama]'")
    if shutil.which("cmake") is None:
        raise BuildError("there is no cmake: install it (apt install cmake, brew install cmake, pip install cmake)")
    home, say_where = _home(), f"into {_home().relative_to(DIRECTORY.parent.parent)}"
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "source" / "CMakeLists.txt").is_file():
        say(f"downloading the source of llama.cpp {say_where} (77 MB, once)")
        _unpack(_download(home, say), home)
    say(f"compiling llama.cpp's own programs {say_where} (once; some minutes)")
    ninja = ("-G", "Ninja") if shutil.which("ninja") else ()
    here = (
        f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={Path(__file__).resolve().with_suffix('.cmake')}",
        f"-DCOGSTEP_LIBRARIES={Path(next(iter(package.submodule_search_locations))) / 'lib'}",
    )
    _run(["cmake", "-S", home / "source", "-B", home / "build", *ninja, *OPTIONS, *here], say)
    jobs = jobs or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    _run(["cmake", "--build", home / "build", "--target", *programs, "--parallel", str(jobs)], say)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """In a child that was just made: a signal for it when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    if _libc is not None:
        _libc.prctl(1, signal.SIGKILL, 0, 0, 0)


def _home() -> Path:
    """One folder for each version."""
    return DIRECTORY / version("llama-cpp-python")


def _download(home: Path, say: Progress) -> Path:
    wanted = f"llama-cpp-python=={version('llama-cpp-python')}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    _run([*pip, "--no-binary", "llama-cpp-python", "--dest", home, wanted], say)
    return next(home.glob("llama_cpp_python-*.tar.gz"))


def _unpack(archive: Path, home: Path) -> None:
    """Only llama.cpp's own tree, as ``source``."""
    unpacked = home / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (tree,) = unpacked.glob("*/vendor/llama.cpp")
    tree.rename(home / "source")
    shutil.rmtree(unpacked)
    archive.unlink()


def _run(command: Sequence[str | Path], say: Progress) -> None:
    last: list[str] = []
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = [*last[-19:], line.rstrip()]
            if STEP.match(line):
                say.detail(line.strip())
        process.wait()
    if process.returncode != 0:
        raise BuildError(f"{Path(command[0]).name} ended with code {process.returncode}:\n" + "\n".join(last))


@contextmanager
def started(command: Sequence[str | Path], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone, with all its children, when the block is left, however that happens.

    It has a process group of its own, so that Ctrl-C reaches this program alone, which then ends the group. Where the
    system can, it also ends when this program is killed.
    """
    process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
        [str(part) for part in command], text=True, start_new_session=True, preexec_fn=_die_with_parent, **options
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


if __name__ == "__main__":  # all of them, or those that are named
    prepare(Progress(), programs=sys.argv[1:] or PROGRAMS)
