"""Errors of cassettes. They pass through an agent, so that the test fails with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cognition import CogstepError
from cognition.base.display import LONGEST_LINE, shown_name


class CassetteError(CogstepError):
    """A cassette can't be read or written.

    Attributes:
        path: its file.
    """

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(f"{shown_name(str(path), LONGEST_LINE)}: {message}")
        self.path = path


class CassetteMissError(CassetteError):
    """A model got a request that is not on the cassette. The message shows the nearest recorded request, if any.

    Attributes:
        request: the request, as data.
        nearest: the position of the nearest recorded request, from 0. None if the model has no recorded requests, or if
            this request was recorded but all its replies are used.
    """

    lines = True

    def __init__(self, message: str, *, path: Path, request: dict[str, Any], nearest: int | None) -> None:
        super().__init__(message, path=path)
        self.request = request
        self.nearest = nearest
