"""The tools that read and change the files of one directory, made together: what one reads another may change."""

from __future__ import annotations

import os
from typing import Any

from interpreters.toolbox.desk import Desk
from interpreters.toolbox.edit import edit_tools
from interpreters.toolbox.patch import patch_tool
from interpreters.toolbox.read import read_tool
from interpreters.toolbox.write import write_tool
from interpreters.tools.tool import Tool


def file_tools(root: str | os.PathLike[str]) -> tuple[Tool[..., Any], ...]:
    """``Read`` with line ranges, ``Write``, ``Edit``, ``MultiEdit`` and ``Patch``, working in the directory ``root``.

    All but ``Read`` ask for approval.

    Raises:
        ConfigError: ``root`` is no directory.
    """
    desk = Desk(root)
    return (read_tool(desk), write_tool(desk), *edit_tools(desk), patch_tool(desk))
