"""Runs the quick tests on the other Pythons that the project names: 3.12 and 3.13, and the core's tests on 3.14.

    python tests/pythons.py                            every one that is installed; names those that are not
    python tests/pythons.py 3.13 --pytest -k journal   one of them; what follows ``--pytest`` goes to pytest
    python tests/pythons.py --seconds 600              only tests that begin within ten minutes
    make test-pythons                                  the first, after the set-up

3.12 and 3.13 are looked for on the path and in pyenv's and uv's folders. Each gets an environment in ``.venv/``, with
everything that the project's own environment has. 3.14 is Pyodide's, which npm installs and Node runs: CPython compiled
to WebAssembly, where only pure Python installs. It has no threads and no processes, and the core needs neither.

Exits with 1 if a test fails. A Python that isn't there is named, and no failure.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = ("3.12", "3.13")
IN_NODE = "3.14"
EXTRAS = ".[llama,mlx,hub,remote,dev]"
"""As the Makefile has them."""
QUICK = ("-m", "not slow", "--hypothesis-profile=few")
"""The tests of ``make test``, with fewer examples of each property."""

PYODIDE = ROOT / ".pyodide"
PYODIDE_VERSION = "314.0.7"
"""Its first part is the version of Python."""
PURE = ("attrs", "cattrs", "hypothesis<6.149", "pytest>=9,<10")
"""What the core and its tests need. Hypothesis is compiled from 6.149 on, which Pyodide can't load."""
NEEDS_MORE = "tests/cognition/steps/test_schema.py"
"""The one file of the core's tests that needs a compiled package: jsonschema's."""
STACK = 120_000
"""KB of Node's stack. Python bounds its own use of the stack in WebAssembly by what it expects Node to have."""
SET_UP = 120
"""Seconds that an environment may take. With less for a Python than this, it is left out."""


def candidates(version: str) -> Iterator[str]:
    """Yield the places where a Python of this version may be."""
    if found := shutil.which(f"python{version}"):
        yield found
    for folder in (Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"):
        yield from (str(path) for path in sorted(folder.glob(f"*{version}*/bin/python{version}"), reverse=True))


def find_python(version: str) -> str | None:
    """Return the command of a Python of this version that starts and can make environments."""
    wanted = tuple(int(part) for part in version.split("."))
    check = f"import sys, ensurepip, venv; sys.exit(sys.version_info[:2] != {wanted})"
    for command in candidates(version):
        if subprocess.run([command, "-c", check], capture_output=True, check=False).returncode == 0:
            return command
    return None


def environment(version: str, python: str) -> Path:
    """Return the Python of an environment with all extras. It is made, or brought up to date, if need be."""
    folder = ROOT / ".venv" / f"python{version}"
    stamp, command = folder / ".all", folder / "bin" / "python"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        print(f"installing cogstep into {folder.relative_to(ROOT)} ...", flush=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = (command, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        subprocess.run([*install, *built_wheels(), "-e", EXTRAS], cwd=ROOT, check=True)
        stamp.touch()
    return command


def built_wheels() -> list[str]:
    """Return the wheel of llama.cpp that pip built for this Python. It fits every Python 3, which pip does not see."""
    command = (sys.executable, "-m", "pip", "cache", "list", "--format=abspath", "llama_cpp_python")
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in listed if line.endswith(".whl") and "-py3-none-" in line][-1:]


def run_installed(version: str, arguments: Sequence[str]) -> int | None:
    """Run the quick tests on an installed Python. Returns pytest's exit status, or None without such a Python."""
    python = find_python(version)
    if python is None:
        return None
    command = [environment(version, python), "-m", "pytest", "-n", "auto", "--dist", "worksteal", *QUICK, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_in_node(arguments: Sequence[str]) -> int | None:
    """Run the core's quick tests on Pyodide. Returns pytest's exit status, or None without Node and npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    site = PYODIDE / "site"
    stamp = PYODIDE / PYODIDE_VERSION
    if not stamp.exists():
        print(f"installing Pyodide {PYODIDE_VERSION} into {PYODIDE.relative_to(ROOT)} ...", flush=True)
        npm = ("npm", "install", "--prefix", str(PYODIDE), "--no-audit", "--no-fund", "--silent")
        subprocess.run([*npm, f"pyodide@{PYODIDE_VERSION}"], check=True)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(site))
        pure = ("--python-version", IN_NODE, "--implementation", "py", "--abi", "none", "--platform", "any")
        subprocess.run([*pip, "--upgrade", "--only-binary=:all:", *pure, *PURE], check=True)
        stamp.touch()
    script = ROOT / "tests" / "pyodide.mjs"
    limit = ("sh", "-c", 'ulimit -s unlimited; exec "$@"', "sh")
    node = ("node", f"--stack-size={STACK}", str(script), str(PYODIDE), str(ROOT))
    return subprocess.run([*limit, *node, *QUICK, *arguments], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="3.12, 3.13 or 3.14; without any, all of them")
    parser.add_argument("--seconds", type=float, metavar="S", help="start no test later than this")
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[], help="what follows goes to pytest")
    options = parser.parse_args()
    versions = options.versions or [*INSTALLED, IN_NODE]
    if unknown := set(versions) - {*INSTALLED, IN_NODE}:
        parser.error(f"there is no lane for Python {', '.join(sorted(unknown))}: choose 3.12, 3.13 or 3.14")
    results: list[str] = []
    failed = False
    ends = time.monotonic() + (options.seconds or 0)
    for number, version in enumerate(versions):
        began = time.monotonic()
        print(f"== Python {version}", flush=True)
        arguments = list(options.pytest)
        if version == IN_NODE:
            arguments = arguments or ["tests/cognition", f"--ignore={NEEDS_MORE}"]
        if options.seconds is not None:
            own = (ends - began) / (len(versions) - number) - SET_UP
            if own <= 0:
                results.append(f"Python {version}: not run, the time was over")
                continue
            arguments += ["--seconds", f"{own:.0f}"]
        status = run_in_node(arguments) if version == IN_NODE else run_installed(version, arguments)
        if status is None:
            missing = "node and npm are not installed" if version == IN_NODE else f"no python{version} is installed"
            results.append(f"Python {version}: skipped, {missing}")
        else:
            failed |= status != 0
            took = time.monotonic() - began
            results.append(f"Python {version}: {'failed' if status else 'passed'} in {took:.0f} s")
    print("\n".join(results))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
