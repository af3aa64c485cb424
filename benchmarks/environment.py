"""The peers' own environment, so that what they pull in never meets what cogstep needs."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.table import Progress

HERE = Path(__file__).resolve().parent
DIRECTORY = HERE / ".peers"
PINS = HERE / "peers.txt"


class InstallError(Exception):
    """What a peer needs could not be installed; the message is the installer's own last word."""


def pins() -> list[str]:
    lines = (line.split("#", 1)[0].strip() for line in PINS.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def python() -> Path:
    return DIRECTORY / "bin" / "python"


def prepare(needs: dict[str, tuple[str, ...]], say: Progress) -> dict[str, str]:
    """Make the environment ready for these peers (name -> distributions); name -> reason for those that failed.

    All pins go in at once. Only when that fails, each peer is tried by itself, so that one broken release does not
    take the others with it.
    """
    if not needs or _stamp_is_current():
        return {}
    say(f"making an environment for the peers in {DIRECTORY.relative_to(HERE.parent)} (once; one to three minutes)")
    venv.create(DIRECTORY, with_pip=True, clear=True)
    try:
        _install(pins(), say)
    except InstallError as error:
        say(f"not all at once ({error}); now one by one")
    else:
        _stamp().write_text(_fingerprint(), encoding="utf-8")
        return {}
    failed = {}
    for name, distributions in needs.items():
        try:
            _install([pin for pin in pins() if pin.split("==")[0] in distributions], say)
        except InstallError as error:
            failed[name] = f"could not be installed: {error}"
    return failed


def _stamp() -> Path:
    return DIRECTORY / "installed"


def _fingerprint() -> str:
    return hashlib.sha256("\n".join([sys.version, *pins()]).encode()).hexdigest()


def _stamp_is_current() -> bool:
    return _stamp().is_file() and _stamp().read_text(encoding="utf-8") == _fingerprint()


def _install(requirements: list[str], say: Progress) -> None:
    command = [str(python()), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", *requirements]
    # A group of its own: Ctrl-C reaches this script alone, which then ends the installer.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    last = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(("Collecting ", "Installing ")):
                say.detail(line.strip())
            if line.startswith("ERROR"):
                last = last or line.strip().split(" (from versions")[0]
        if process.wait() != 0:
            raise InstallError(last.removeprefix("ERROR: ") or f"pip ended with code {process.returncode}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
