"""The code of docs/guides/durable-restate.md, run as it stands there, on a real server."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("restate", reason="needs the extra `restate`")

from tests.interpreters.durable.restate_rig import MISSING, free_port, running_server, server_program

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BOTH = """
import sys
from page import talk, work
if sys.argv[1] == "work":
    work()
else:
    print(talk())
"""


@pytest.mark.skipif(server_program() is None, reason=MISSING)
@pytest.mark.slow
def test_what_the_page_says_of_a_session_holds(tmp_path: Path) -> None:
    """One process works, another one talks, and the first one ends in order at SIGTERM."""
    blocks = BLOCK.findall((ROOT / "docs" / "guides" / "durable-restate.md").read_text("utf-8"))
    page = "\n".join(block for block in blocks if "nowhere" not in block)
    with running_server(tmp_path / "server") as server:
        changed = {":8080": server.ingress, ":9070": server.admin, ":9080": f"http://127.0.0.1:{free_port()}"}
        for port, address in changed.items():
            assert f"http://127.0.0.1{port}" in page
            page = page.replace(f"http://127.0.0.1{port}", address)
        (tmp_path / "page.py").write_text(page)
        (tmp_path / "both.py").write_text(BOTH)

        def start(what: str) -> subprocess.Popen[str]:
            environ: Any = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
            command = [sys.executable, "both.py", what]
            pipe = subprocess.PIPE
            return subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=pipe, stderr=pipe, text=True)

        worker = start("work")
        try:
            said, until = "", time.monotonic() + 60
            while not said and time.monotonic() < until:  # until the server knows the process
                assert worker.poll() is None
                said, errors = start("talk").communicate(timeout=60)
                assert said or "start a process that serves this agent" in errors
            worker.terminate()
            worker.communicate(timeout=60)
        finally:
            worker.kill()

    assert said.splitlines()[0] == "It is paid."
    assert worker.returncode == 0
