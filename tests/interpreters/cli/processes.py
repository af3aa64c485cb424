"""Commands to start in processes of their own: the real one, and the real one on a model that follows a script."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

COMMAND = (sys.executable, "-m", "interpreters.cli.main")

SCRIPTED = """
    import itertools, sys, threading
    from interpreters import fakes, tool, ToolContext
    from interpreters.testing.fakes import Hold, Reply, call
    from interpreters.cli.session import session
    import interpreters.toolbox
    from interpreters.cli.main import main

    replies = ["391"]
    tools, context = None, 4096
    {script}
    session.load_model = lambda *_, **__: fakes.ScriptedModel(iter(replies), context_tokens=context)
    if tools is not None:
        interpreters.toolbox.standard_tools = lambda root: tools
    sys.exit(main())
"""
"""The real command on a model that does as it is told, for what the shipped model can't be told to do."""

BACKENDS = [
    pytest.param(
        name, marks=[getattr(pytest.mark, name), pytest.mark.skipif(not find_spec(package), reason=f"no {package}")]
    )
    for name, package in (("llama", "llama_cpp"), ("mlx", "mlx_lm"))
]
"""Each backend that is installed."""


def scripted(*scripts: str) -> tuple[str, ...]:
    """A command like ``COMMAND`` whose model and tools pieces of code have set."""
    code = textwrap.dedent(SCRIPTED).replace("{script}", "\n".join(map(textwrap.dedent, scripts)).strip())
    return (sys.executable, "-c", code)


Cogstep = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
OnTerminal = Callable[..., tuple[str, int]]
