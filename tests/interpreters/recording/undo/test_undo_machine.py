"""Any sequence of tools' changes, turns, undos, outside changes and kills, beside a plain model of what has to come."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from attrs import define
from hypothesis import event, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from interpreters import Agent, ToolContext, ToolError, UndoError, fakes, replay, tool, undo
from interpreters.recording.journal.content_files import undo_files
from interpreters.recording.undo._log import ChangeEntry, ChangeLog
from interpreters.testing.fakes import call
from interpreters.toolbox import file_tools, file_transaction as changing

File = tuple[bytes, int] | None
"""What a file holds, and its mode; None: there is none."""
Tree = dict[str, File]

NAMES = ("a", "b", "d/a", "d/e/b", "ü x")
CONTENTS = (b"x\n", b"y\r\nx\r\n", b"\xff\xfe no text\n", b"\xef\xbb\xbfx y\n", b"caf\xe9 x\n", b"")
TEXTS = ("", "x\n", "y\n", "x\ny\n", "é x\n")
MODES = (0o644, 0o600, 0o755, 0o640)
KILLS = st.none() | st.integers(0, 45)
"""At which operation on files the process is killed; None: not at all."""
COUNTED = ("link", "rename", "replace", "unlink", "fsync", "write", "mkdir", "rmdir", "ftruncate", "fchmod")


@define
class Touch:
    """A change by a tool or an undo: of each file what it was, and what it may be afterwards."""

    turn: int
    old: Tree
    left: dict[str, set[str | None]]
    """By the SHA-256 of what they hold."""
    modes: set[str]
    """Whose mode may be another one."""


def digest(file: File) -> str | None:
    return None if file is None else sha256(file[0]).hexdigest()


def killed(work: Callable[[], object], operations: int | None) -> bool:
    """Do something in a child that is killed at an operation on files; whether it was. None: here, to its end."""
    if operations is None:
        work()
        return False
    child = os.fork()
    if not child:
        try:
            _kill_at(operations)
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _kill_at(operations: int) -> None:
    left = [operations]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def one(*args: Any, **named: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **named)

        return one

    for name in COUNTED:
        setattr(os, name, counted(getattr(os, name)))
    changing.exchange = counted(changing.exchange)


class Undoing(RuleBasedStateMachine):
    """The files are what the model says, whatever was done."""

    @initialize(
        files=st.dictionaries(st.sampled_from(NAMES), st.tuples(st.sampled_from(CONTENTS), st.sampled_from(MODES)))
    )
    def begin(self, files: dict[str, tuple[bytes, int]]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "root"
        self.root.mkdir()
        self.journal = self.folder / "s.jsonl"
        for name, (what, mode) in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(what)
            (self.root / name).chmod(mode)
        self.tools = {one.spec.name: one for one in file_tools(self.root)}
        self.touches: list[Touch] = []
        self.undone: Touch | None = None
        """The newest undo."""
        self.turn = self.outside = 0
        held: list[Any] = []

        @tool
        def hold(context: ToolContext[Any]) -> str:
            held.append(context)
            return "held"

        def script() -> Iterator[Any]:
            yield call("hold")
            while True:
                yield "ok"

        self.agent = Agent(fakes.ScriptedModel(script()), [hold], journal=self.journal)
        self.begin_turn()
        self.context = held[0]

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self.agent.close()
            assert replay(self.journal).same
            shutil.rmtree(self.folder)

    def tree(self) -> Tree:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in found
        }

    def noted(self) -> list[ChangeEntry]:
        """The changes that stand in the list."""
        with ChangeLog(undo_files(self.journal), self.agent.session).hold() as log:
            return list(log.entries)

    # ------------------------------------------------------------------------------------------------ what happens

    @rule()
    def begin_turn(self) -> None:
        assert self.agent.run("go").text == "ok"
        self.turn += 1

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(TEXTS), kill=KILLS)
    def write(self, name: str, text: str, kill: int | None) -> None:
        self.change("Write", [name], {"path": name, "content": text}, kill)

    @rule(name=st.sampled_from(NAMES), new=st.sampled_from(["", "z", "x x", "ö"]), kill=KILLS)
    def edit(self, name: str, new: str, kill: int | None) -> None:
        self.change("Edit", [name], {"path": name, "old": "x", "new": new, "replace_all": True}, kill)

    @rule(name=st.sampled_from(NAMES), kill=KILLS)
    def edit_twice(self, name: str, kill: int | None) -> None:
        edits = [{"old": old, "new": new, "replace_all": True} for old, new in (("x", "y"), ("y", "yx"))]
        self.change("MultiEdit", [name], {"path": name, "edits": edits}, kill)

    @rule(wanted=st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(TEXTS), min_size=1), kill=KILLS)
    def patch(self, wanted: dict[str, str | None], kill: int | None) -> None:
        now = self.tree()
        diffs = [self.diff(name, now.get(name), text) for name, text in wanted.items()]
        self.change("Patch", list(wanted), {"patch": "".join(diffs)}, kill)

    def diff(self, name: str, file: File, new: str | None) -> str:
        before = [] if file is None else file[0].decode("latin-1").replace("\r", "").split("\n")[:-1]
        after = [] if new is None else new.split("\n")[:-1]
        head = (
            f"--- {'/dev/null' if file is None else f'a/{name}'}\n+++ {'/dev/null' if new is None else f'b/{name}'}\n"
        )
        lines = [f"-{line}\n" for line in before] + [f"+{line}\n" for line in after]
        return f"{head}@@ -1,{len(before)} +1,{len(after)} @@\n{''.join(lines)}" if lines else ""

    def change(self, name: str, paths: list[str], arguments: dict[str, Any], kill: int | None) -> None:
        before, noted = self.tree(), self.noted()
        for path in set(paths) & set(before):  # a session that has not read a file may not change it
            try:
                self.tools["Read"].call({"path": path}, self.context)
            except ToolError:  # what is no text can be neither read nor changed
                return
        try:
            killed(lambda: self.tools[name].call(arguments, self.context), kill)
        except ToolError as error:
            event(f"{name}: {str(error)[:20]}")
            assert self.tree() == before
            return
        self.tools = {one.spec.name: one for one in file_tools(self.root)}  # and what a kill left half done is put back
        after = self.tree()
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert changed <= set(paths)
        entries = self.noted()
        if len(entries) == len(noted):
            assert not changed, "a change was made that nothing was kept for"
            return
        (tree,) = entries[-1].trees
        files = {"/".join(one.path): one for one in tree.files}
        assert changed <= set(files) <= set(paths)
        old = {path: before.get(path) for path in files}
        left = {path: {digest(after.get(path))} for path in files}
        modes = {path for path in files if before.get(path) is None or after.get(path) is None}
        if kill is not None:
            # Nobody knows that it was made. What it would have left, if it was not, only the list says.
            left = {path: {one.new, digest(old[path])} for path, one in files.items()}
            modes = {path for path, one in files.items() if one.mode_too}
        self.touches.append(Touch(self.turn, old, left, modes))

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["write", "delete", "chmod"]))
    def somebody_else(self, name: str, how: str) -> None:
        """Changes a file, to what it never was before."""
        path = self.root / name
        self.outside += 1
        if how == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"theirs %d\n" % self.outside)
        elif how == "delete":
            path.unlink(missing_ok=True)
        elif path.exists():
            path.chmod(MODES[self.outside % len(MODES)])

    # ------------------------------------------------------------------------------------------------------- undos

    @precondition(lambda self: self.touches)
    @rule(data=st.data(), force=st.booleans(), kill=KILLS)
    def undo_turn(self, data: st.DataObject, force: bool, kill: int | None) -> None:
        turn = data.draw(st.integers(1, self.turn), "turn")
        since = [one for one in self.touches if one.turn >= turn]
        self.go_back(since, {"turn": turn}, force, kill)

    @precondition(lambda self: self.undone is not None)
    @rule(force=st.booleans(), kill=KILLS)
    def redo(self, force: bool, kill: int | None) -> None:
        place = next(place for place, one in enumerate(self.touches) if one is self.undone)
        self.go_back(self.touches[place:], {"redo": True}, force, kill)

    def go_back(self, since: list[Touch], given: dict[str, Any], force: bool, kill: int | None) -> None:
        before, noted = self.tree(), self.noted()
        wanted: Tree = {}
        for touch in reversed(since):
            wanted |= touch.old
        left: dict[str, set[bytes | None]] = {}
        for touch in since:
            left |= touch.left
        modes = {name for one in since for name in one.modes}
        moved = {
            name
            for name in wanted
            if digest(before.get(name)) != digest(wanted[name]) or (name in modes and before.get(name) != wanted[name])
        }
        in_the_way = {name for name in moved if digest(before.get(name)) not in {*left[name], digest(wanted[name])}}
        if in_the_way and not force:
            with pytest.raises(UndoError) as caught:
                undo(self.journal, **given)
            assert len(caught.value.files) == len(in_the_way)
            assert all(any(name in line for line in caught.value.files) for name in in_the_way)
            assert self.tree() == before
            return
        was_killed = killed(lambda: undo(self.journal, **given, force=force), kill)
        self.tools = {one.spec.name: one for one in file_tools(self.root)}  # and what a kill left half done is put back
        expected = {**before, **{name: wanted[name] for name in moved}}
        for name in moved - modes:  # a mode that somebody else has given it since is theirs
            if (now := before.get(name)) is not None and (old := wanted[name]) is not None:
                expected[name] = (old[0], now[1])
        expected = {name: file for name, file in expected.items() if file is not None}
        if was_killed:
            assert self.tree() in (before, expected)
            undo(self.journal, **given, force=force)  # the same once more carries it to its end
        assert self.tree() == expected
        if len(self.noted()) == len(noted):
            assert before == expected
            return
        old = {name: before.get(name) for name in moved}
        left = {name: {digest(wanted[name])} for name in moved}
        both = {name for name in moved if name in modes or old[name] is None or wanted[name] is None}
        self.undone = Touch(self.turn, old, left, both)
        self.touches.append(self.undone)


Undoing.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestUndoing = Undoing.TestCase
