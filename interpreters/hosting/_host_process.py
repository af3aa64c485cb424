"""Starting and killing the process of a host, and the names that its messages may use."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cognition import ConfigError
from cognition.base.checking import shown
from runtime.children import start as starting

CHILD = "interpreters.hosting.host_main"

CLOSED = "the host was closed"


def start_host(
    load: str | None,
    factories: Mapping[str, str | Callable[..., Any]],
    command: Sequence[str] | None,
    env: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    """Start the process; the arguments are those of ``AgentHost.in_process``.

    Raises:
        ConfigError: another process can't import a factory.
        OSError: the process can't be started.
    """
    environ = starting.environment(env, downloads=(load or "").startswith("hf:"))
    if command is not None:
        found = {"PYTHONPATH": os.pathsep.join([*starting.module_path(), *starting.HOMES]), "PYTHONSAFEPATH": "1"}
        return starting.run(command, env=found | environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    named = {name: place_of(make) for name, make in factories.items()}
    folders = [starting.folder_of(place.partition(":")[0]) for place in named.values()]
    return starting.start(
        CHILD,
        [
            *(f"--factory={name}={place}" for name, place in named.items()),
            *([] if load is None else [f"--model={load}"]),
            "--files=/",  # it is this program alone that speaks to it
        ],
        environ=environ,
        folder=None,
        folders=[folder for folder in folders if folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def place_of(factory: str | Callable[..., Any]) -> str:
    """Return a name for importing a function in another process.

    Raises:
        ConfigError: another process can't import it.
    """
    if isinstance(factory, str):
        module, colon, name = factory.partition(":")
    else:
        module, colon, name = getattr(factory, "__module__", ""), ":", getattr(factory, "__qualname__", "")
    if not (module and colon and name.isidentifier()) or module == "__main__":
        raise ConfigError(
            f"{shown(factory)} is no factory that another process can find: put the function into a module, and name "
            "it as package.module:function"
        )
    return f"{module}:{name}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children (they are in its session): a pipe that a child holds would never end."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def end_of(code: int) -> str:
    if code == 0:
        return CLOSED
    if code < 0:
        return f"the host's process was killed by {signal.Signals(-code).name}"
    return f"the host's process ended with status {code}"
