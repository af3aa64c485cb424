"""The tools that read and change files in one directory. They share a ``EditSession``: one tool may change a file that
another has read.
"""

from __future__ import annotations

import os
from typing import Any

from interpreters.toolbox._edit import edit_tools
from interpreters.toolbox._patch import patch_tool
from interpreters.toolbox._read import read_tool
from interpreters.toolbox._write import write_tool
from interpreters.toolbox.edit_session import EditSession
from interpreters.tools.tool import Tool


def file_tools(root: str | os.PathLike[str]) -> tuple[Tool[..., Any], ...]:
    """Return ``Read`` with line ranges, ``Write``, ``Edit``, ``MultiEdit`` and ``Patch`` for the directory ``root``.

    All but ``Read`` ask for approval.

    Raises:
        ConfigError: ``root`` is not a directory.
    """
    desk = EditSession(root)
    return (read_tool(desk), write_tool(desk), *edit_tools(desk), patch_tool(desk))
