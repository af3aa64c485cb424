"""A model in a process of its own, from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.models.specs import is_installed

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(not (is_installed("llama") or is_installed("mlx")), reason="no backend is installed")
def test_isolate_answers_as_without_it() -> None:
    """The same answer on stdout, the same notes on stderr, the same code."""
    command = [sys.executable, "-m", "interpreters.cli.main", "run", "What is 17 * 23?"]
    done = [
        subprocess.run(
            [*command, *more], cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        for more in ([], ["--isolate"])
    ]
    plain, isolated = done

    assert (plain.returncode, isolated.returncode, isolated.stdout) == (0, 0, plain.stdout)
    assert isolated.stderr == plain.stderr
