"""A PostgreSQL server of the tests' own: started by the first that asks for it, on loopback, and ended with them."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

PASSWORD = "not-to-be-shown"

SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
shared_buffers = 16MB
max_connections = {max_connections}
"""


def _program(name: str) -> str | None:
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *places]))


def why_no_postgres() -> str:
    """Why there is none; empty where there is one."""
    if _program("initdb") is None or _program("pg_ctl") is None:
        return "PostgreSQL is not installed here (apt-get install postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL refuses to run as root, and there is no setpriv to be somebody else with"
    return ""


needs_postgres = pytest.mark.skipif(bool(why_no_postgres()), reason=why_no_postgres())


class Postgres:
    """A server with one user, whose password is ``PASSWORD``."""

    def __init__(self, max_connections: int = 100) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cogstep-postgres-"))
        self._as_other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] * (os.geteuid() == 0)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._as_other:
            for one in (self.folder, password):
                shutil.chown(one, "nobody", "nogroup")
        how = [
            "-A",
            "scram-sha-256",
            "--pwfile",
            str(password),
            "-U",
            "cogstep",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        self._run("initdb", *how)
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS.format(folder=self.folder, max_connections=max_connections))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return self.url_with(PASSWORD)

    def url_with(self, password: str) -> str:
        return f"postgresql://cogstep:{password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._run("pg_ctl", "-o", f"-p {self.port}", "-l", str(self.folder / "log"), "-w", "start")

    def stop(self, how: str = "fast") -> None:
        """``fast`` ends it in order, ``immediate`` as a crash does."""
        self._run("pg_ctl", "-m", how, "-w", "stop")

    def end(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        found = _program(program)
        assert found is not None
        command = [*self._as_other, found, "-D", str(self.folder / "data"), *arguments]
        # To a file: the server that is started keeps what it inherits open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.folder)
            said.seek(0)
            assert done.returncode == 0, said.read().decode(errors="replace")


@cache
def postgres() -> Postgres:
    """The one that all tests use which do not stop it."""
    server = Postgres()
    own = os.getpid()

    def end() -> None:
        if os.getpid() == own:  # and not in a child that was forked
            server.end()

    atexit.register(end)
    return server
