"""The commands of docs/guides/durable-operations.md, run as they stand there."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="needs the extra `dbos`")

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHIM = "import tests.interpreters.durable.sqlite\n"

ASK = """
import sys, time
from urllib.request import urlopen
for _ in range(600):
    try:
        sys.stdout.write(urlopen("http://127.0.0.1:PORT/metrics").read().decode())
        sys.stdout.write(urlopen("http://127.0.0.1:PORT/").read().decode() + "\\n")
        break
    except OSError:
        time.sleep(0.1)
"""


@pytest.mark.slow
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    """Behind the files of the page on durable sessions, while its process works."""
    begun = BLOCK.findall((ROOT / "docs" / "guides" / "durable.md").read_text("utf-8"))[:3]
    blocks = BLOCK.findall((ROOT / "docs" / "guides" / "durable-operations.md").read_text("utf-8"))
    assert len(blocks) == 6
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (tmp_path / "sitecustomize.py").write_text(SHIM)
    (tmp_path / "cogstep").write_text(f'#!/bin/sh\nexec {sys.executable} -m interpreters.cli.main "$@"\n')
    (tmp_path / "cogstep").chmod(0o755)
    (tmp_path / "ask_metrics.py").write_text(ASK.replace("PORT", str(port)))
    ending = "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT"
    script = "\n".join([ending, *begun, *blocks, "echo written", "cat cogstep.prom", "python ask_metrics.py"])
    with (tmp_path / "said").open("w+") as output, (tmp_path / "errors").open("w") as errors:
        done = subprocess.run(
            ["bash", "-e", "-u", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                "PORT": str(port),
                "PATH": f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            },
            stdout=output,
            stderr=errors,
            timeout=400,
        )
        output.seek(0)
        said = [line for line in output.read().splitlines() if line != "at work"]
    assert done.returncode == 0, (tmp_path / "errors").read_text()

    heads, row, *rest = said[3:]
    assert said[2] == "pay waits for an approval under 2.1.1"
    assert heads.split() == ["status", "age", "tries", "session", "agent", "version", "run", "reason"]
    assert row.split()[0] == "waiting"
    assert row.endswith("waits for a person: approval of pay 2.1.1")
    assert [line.split(":")[0] for line in rest[:5]] == [
        "ada", "ada", "no new runs begin", "runs begin again", "deleted"
    ]  # fmt: skip
    assert rest[5].split() == ["version", "agents", "processes", "runs", "sessions", "open", "absent"]
    assert rest[6].split() == ["1-1", "helper", "1", "0", "1", "0", "-"]
    assert rest[7] == "healthy"
    assert rest[-1] == "healthy"
    assert rest[rest.index("written") :].count('cogstep_durable_workers{engine="dbos"} 1') == 2  # the file, the server
