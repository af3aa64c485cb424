"""Which sandboxes can be used here. Where all of them have to be (``COGSTEP_SANDBOXES=required``), a skip fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

from interpreters.toolbox.shell import _landlock
from interpreters.toolbox.shell.sandbox import Choice


@cache
def why_not(wall: Choice) -> str:
    """Return why a sandbox can't be used; of bubblewrap by a call without options of ours, so that a mistake in those
    is a failure.
    """
    if sys.platform != "linux":
        return "this is not Linux"
    if wall == "landlock":
        return _landlock.problem()
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    return f"bubblewrap may not be used here: {run.stderr.strip()}" if run.returncode else ""


def needs(wall: Choice) -> None:
    """Skip the test where a sandbox can't be used; fail where it has to be."""
    if problem := why_not(wall):
        if os.environ.get("COGSTEP_SANDBOXES") == "required":
            pytest.fail(f"COGSTEP_SANDBOXES=required: {problem}")
        pytest.skip(problem)
