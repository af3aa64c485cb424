"""The limits of one command: which paths it may read and write.

A module of ``_landlock_start.py``: it imports nothing else from this project, and little at all.
"""

import os
from collections.abc import Iterable
from contextlib import suppress


class Tree:
    """Denied paths, as a tree of their names.

    Args:
        paths: absolute paths without links.
    """

    def __init__(self, paths: "Iterable[bytes]") -> None:
        self.top: Node = Node()
        for path in paths:
            node = self.top
            for name in path.split(b"/"):
                if name:
                    node = node.below.setdefault(name, Node())
            node.denied = True
            with suppress(OSError):
                status = os.lstat(path)
                node.directory = status.st_mode & 0o170000 == 0o040000
                node.inode = status.st_ino
        self.inodes: set[int] = {node.inode for node in self.top.walk() if node.denied and not node.directory}

    def node(self, path: bytes) -> "Node | None":
        """Return the node of a path: a denied one if the path or one above it is denied; None if nothing is denied
        there or below.
        """
        node = self.top
        for name in path.split(b"/"):
            if node.denied:
                break
            if name:
                found = node.below.get(name)
                if found is None:
                    return None
                node = found
        return node

    def denies(self, path: bytes) -> bool:
        node = self.node(path)
        return node is not None and node.denied


class Node:
    """A name in a tree of denied paths."""

    __slots__ = ("below", "denied", "directory", "inode")

    def __init__(self) -> None:
        self.below: dict[bytes, Node] = {}
        self.denied: bool = False
        self.directory: bool = True
        """Whether a denied path is a directory; also true if it is missing."""
        self.inode: int = 0

    def walk(self) -> "list[Node]":
        found = [self]
        for node in found:
            found += node.below.values()
        return found

    def only_files(self) -> bool:
        """Whether no directory is denied here or below."""
        return not any(node.denied and node.directory for node in self.walk())


class Limits:
    """The limits of one command, from the words before it (``_landlock.words``)."""

    def __init__(self, words: "Iterable[bytes]") -> None:
        pairs = [word.split(b"=", 1) for word in words]

        def paths(name: bytes) -> "list[bytes]":
            return [pair[1] for pair in pairs if pair[0] == name]

        (self.root,), (self.temporary,) = paths(b"root"), paths(b"temporary")
        self.readable: list[bytes] = paths(b"readable")
        """Paths of the system, which may be links."""
        self.folders: list[bytes] = paths(b"folder")
        """Further directories that it may read. Nothing is read if one has become a link."""
        self.environ: dict[bytes, bytes] = {}
        """Variables that only the command has."""
        for text in paths(b"environ"):
            name, _, self.environ[name] = text.partition(b"=")
        hidden = paths(b"hidden") + paths(b"program")
        self.network: bool = bool(paths(b"network"))
        self.unreadable: Tree = Tree(hidden)
        """Paths that may not be read."""
        self.unwritable: Tree = Tree(hidden + paths(b"read_only")) if paths(b"read_only") else self.unreadable
        """Paths that may not be written."""
        self.tops: list[bytes] = []
        """Resolved paths below which a command may read."""

    def may_write(self, path: bytes) -> bool:
        return _within(path, (self.root, self.temporary)) and not self.unwritable.denies(path)

    def may_read(self, path: bytes) -> bool:
        return _within(path, self.tops) and not self.unreadable.denies(path)

    def hides_directories(self) -> bool:
        """Whether a directory is hidden that is below a readable one."""
        return any(_within(path, self.tops) for path in denied_folders(self.unreadable.top, b""))


def _within(path: bytes, tops: "Iterable[bytes]") -> bool:
    return any(path == top or path.startswith(top.rstrip(b"/") + b"/") for top in tops)


def denied_folders(node: Node, path: bytes) -> "list[bytes]":
    if node.denied:
        return [path] if node.directory else []
    return [one for name, below in node.below.items() for one in denied_folders(below, path + b"/" + name)]
