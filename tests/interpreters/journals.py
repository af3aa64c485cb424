"""Recordings that were changed by hand: with sums that fit again, as another program might have written them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interpreters.journal.format import sealed


def rewritten(path: Path, change: Callable[[int, Any], Any], to: Path | None = None) -> Path:
    """Change the lines of a journal as data, counted from 1, and seal them anew; the file that was written."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    content, total = [], 0
    for number, data in enumerate(lines, 1):
        data.pop("sum")
        changed = change(number, data)
        line, total = sealed(data if changed is None else changed, total)
        content.append(line)
    to = path if to is None else to
    to.write_bytes(b"".join(content))
    return to


def replaced(path: Path, before: str, after: str, to: Path | None = None) -> Path:
    """Replace a text in a journal and seal its lines anew."""

    def change(_number: int, data: Any) -> Any:
        return json.loads(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(before, after))

    return rewritten(path, change, to)
