"""Preview a whole change for the approving user. The tool's own code computes it, and the call must match it.

A preview is a promise. The desk remembers the digests of every file before and after the change. The call then makes
exactly this change or none: if a file has changed by the time of the answer, the call does not make a change that the
user has not seen. A call whose preview showed a failure must fail too.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from attrs import frozen

from interpreters.toolbox._diff_display import NO_END, diff_lines
from interpreters.toolbox.file_transaction import FileStep, digest_of
from interpreters.tools.previews import Preview
from interpreters.tools.tool import ToolError

REMEMBERED = 1_000
"""Previews remembered. An older preview no longer binds its call."""

Key = tuple[str, str, str]
Outcome = tuple[tuple[tuple[str, ...], str, str, int | None], ...]
"""For each file: its path, the digests before and after, and its mode."""


class ShownPreviews:
    """Previews of calls that have not run yet."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Outcome] = OrderedDict()

    def keep(self, session: str, call_id: str, about: str, steps: Sequence[FileStep]) -> None:
        """Record a preview; no steps for a call that would change nothing."""
        key = session, call_id, about
        self._kept.pop(key, None)
        self._kept[key] = _outcome(steps)
        while len(self._kept) > REMEMBERED:
            with suppress(KeyError):
                self._kept.popitem(last=False)

    def check(self, session: str, call_id: str, about: str, steps: Sequence[FileStep]) -> None:
        """Check a change against its preview, if there is a preview.

        Raises:
            ToolError: the change differs.
        """
        shown = self._kept.get((session, call_id, about))
        if shown is not None and shown != _outcome(steps):
            names = ", ".join(dict.fromkeys(step.path for step in steps))
            raise ToolError(
                f"{names} is not what it was when this change was shown and approved, so that it would be another "
                "one; nothing was changed. Read it again"
            )


def fingerprint(*arguments: object) -> str:
    """Return a digest of a call's arguments, to find its preview again."""
    return hashlib.sha256(repr(arguments).encode("utf-8", "backslashreplace")).hexdigest()


def _outcome(steps: Sequence[FileStep]) -> Outcome:
    return tuple(
        sorted(
            (
                step.parts,
                "" if step.before is None else step.before.digest,
                "" if step.after is None else digest_of(step.after),
                step.mode,
            )
            for step in steps
        )
    )


@frozen
class DisplayedChange:
    """A change of one file for display.

    Attributes:
        sign: ``A`` for created, ``M`` changed, ``D`` deleted, ``R`` renamed.
        name: the path to display.
        before: its old text; empty if it is created.
        after: its new text; empty if it is deleted.
        remark: a further note, including its separator.
    """

    sign: str
    name: str
    before: str
    after: str
    remark: str = ""

    def lines(self) -> list[str]:
        if not self.before or not self.after:  # all lines are new or old: many as they may be, nothing is compared
            diff = [*_whole("-", self.before), *_whole("+", self.after)]
        else:
            diff = list(diff_lines(self.before, self.after, whole=True))
        signs = Counter(line[:1] for line in diff)
        remark = self.remark
        if self.before != self.after and not diff:
            remark += "; only ends of lines change"
        if self.after and _ends(self.after) != _ends(self.before):
            remark += f"; lines end in {_ends(self.after)} then"
        return [f"{self.sign} {self.name}: +{signs['+']} -{signs['-']} lines{remark}", *diff]


def _whole(sign: str, text: str) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    ended = not lines[-1]
    count = len(lines) - ended
    spans = f"-0,0 +{_span(count)}" if sign == "+" else f"-{_span(count)} +0,0"
    made = [f"@@ {spans} @@", *(sign + line.removesuffix("\r") for line in lines[: count - (not ended)])]
    return made if ended else [*made, sign + lines[-1], NO_END]


def _span(count: int) -> str:
    return "1" if count == 1 else f"1,{count}"


def _ends(text: str) -> str:
    """Return the line ending of a text; LF if it has no line ending."""
    carriage = text.count("\r\n")
    return "LF" if not carriage else "CRLF" if carriage == text.count("\n") else "CRLF and LF"


def diff_of(files: Sequence[DisplayedChange]) -> Preview:
    return Preview([line for file in files for line in file.lines()], sort="diff")
