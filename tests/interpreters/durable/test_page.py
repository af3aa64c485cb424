"""The commands of docs/guides/durable.md and docs/guides/durable-versions.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters.databases import needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHIM = "import tests.interpreters.durable.sqlite\n"


@needs_postgres
@pytest.mark.slow
def test_the_commands_lead_from_a_script_to_two_machines(tmp_path: Path) -> None:
    """On SQLite first, whose newer form is put in place as the page says, then on PostgreSQL."""
    blocks = BLOCK.findall((ROOT / "docs" / "guides" / "durable.md").read_text("utf-8"))
    deployed = BLOCK.findall((ROOT / "docs" / "guides" / "durable-versions.md").read_text("utf-8"))
    assert (len(blocks), len(deployed)) == (4, 1)
    (tmp_path / "sitecustomize.py").write_text(SHIM)
    ending = "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT"
    script = "\n".join([ending, *blocks[:3], f"STORE='{postgres().url}'", blocks[3], "wait", *deployed])
    # To files: a process that is left over would hold a pipe open.
    with (tmp_path / "said").open("w+") as output, (tmp_path / "errors").open("w") as errors:
        done = subprocess.run(
            ["bash", "-e", "-u", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            },
            stdout=output,
            stderr=errors,
            timeout=120,
        )
        output.seek(0)
        said = [line for line in output.read().splitlines() if line != "at work"]
    assert done.returncode == 0, (tmp_path / "errors").read_text()

    asked = "pay waits for an approval under 1.1.1"
    assert said[:4] == [asked, "It is paid."] * 2
    assert said[4:] == [asked, asked, *versions("ada"), "It is paid.", *versions("")]


def versions(old: str) -> list[str]:
    return [f"1-1 processes: 1 runs: 0 open:{' ' * bool(old)}{old}", "1-2 processes: 1 runs: 0 open: bob"]
