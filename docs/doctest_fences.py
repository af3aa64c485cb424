"""An extension of griffe: doctests in docstrings become fenced blocks, since Markdown reads ``>>>`` as a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)


def fence_doctests(text: str) -> str:
    """Put each doctest of a docstring into its own fence."""
    return DOCTEST.sub(lambda doctest: f"{doctest[1]}```pycon\n{doctest[0]}\n{doctest[1]}```", text)


class DoctestFences(griffe.Extension):
    """Rewrites each docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fence_doctests(obj.docstring.value)
