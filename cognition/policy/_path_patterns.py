"""Match paths with patterns by their text alone; the tool itself must check symlinks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from attrs import field, frozen

from cognition.policy._text_patterns import compose_text, fits, fold_text
from cognition.policy.rule_patterns import NO, YES, Pattern

WILD = re.compile(r"[*?\[](?:.*[*?\]])?", re.DOTALL)
"""The middle of a name in a search's pattern, from the first to the last character that is not literal."""

LONGEST = 4096
"""The most characters of a path; no system opens a longer path."""
ANY = "**"

DRIVE = re.compile(r"[A-Za-z]:")
"""A drive, which is a separate root on some systems."""

Names = tuple[str, ...]
"""A path's names from the top. An absolute path begins with an empty name, a path above the directory with ``..``."""

NEVER: Names = ("\0",)
"""The names of a pattern that matches no path."""


@frozen
class Path:
    """A path in the form that rules are compared with."""

    names: Names
    """Composed (NFC), without empty names and ``.``; each name followed by ``..`` is removed with it."""
    straight: bool = True
    """Whether no ``..`` removed a name; after a symlink, ``..`` leads elsewhere."""
    real: bool = False
    """Whether it certainly starts in the working directory: a first name ``~`` is a file's own name."""
    folded: Names = field(init=False)
    outside: bool = field(init=False)
    """Whether it does not start in the working directory, so that its place relative to it is unknown."""
    plain: bool = field(init=False)
    """Whether it has no backslash, which some systems treat as a separator."""
    exact: tuple[Names, ...] = field(init=False)
    """The names as systems read them that tell these differences: with dots at their ends, and not composed."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "folded", _bared(self.names))
        object.__setattr__(self, "exact", _exact(self.names, self.folded))
        object.__setattr__(self, "outside", not self.real and leads_out(self.names[0]))
        object.__setattr__(self, "plain", not any("\\" in name for name in self.names))

    @property
    def keys(self) -> Names:
        """The names that include the key of every pattern that can match this path."""
        return self.folded if self.outside else (self.folded[0], self.folded[-1])


def names_of(text: str) -> tuple[Names, bool]:
    """Return a path's names, and whether it goes straight down. The working directory itself is ``(".",)``."""
    parts = compose_text(text).split("/")
    names: list[str] = [""] if parts[0] == "" else []
    straight = True
    for part in parts:
        if part in ("", "."):
            continue
        if part == ".." and names and names[-1] != "..":
            straight = False
            if names != [""]:  # above the top is the top
                names.pop()
        else:
            names.append(part)
    return tuple(names) or (".",), straight


def read_path(text: str, *, real: bool = False) -> Path | None:
    """Return the path in a text; None if no system could open it as it reads. ``real`` as in ``Path``."""
    if not text or len(text) > LONGEST or "\0" in text:
        return None
    return Path(*names_of(text), real)


@frozen
class PathPattern:
    """A pattern's argument for tools that take paths."""

    allowed: Names
    """``**`` is any number of names; other names may contain stars."""
    forbidden: Names

    @classmethod
    def of(cls, pattern: Pattern) -> PathPattern:
        names, _ = names_of(pattern.argument)
        if pattern.prefix and names[-1] != ANY:
            names = (*names, ANY)
        if names[0] == ".":  # everything below the working directory, or it alone
            names = names[1:] or names
        return cls(names, _bared(names))

    @property
    def keys(self) -> Names:
        """A first or last name of every plain path that it can match; empty without such a name."""
        names = _inside(self.forbidden)
        return tuple([name for name in (*names[:1], *names[-1:]) if "*" not in name][:1])

    def prohibits(self, path: Path) -> int:
        """As in ``CommandPattern``. Backslashes count as slashes too, as on some systems."""
        names = path.folded
        if _matches(self.forbidden, names) or (path.outside and self._by_its_end(names)):
            return YES
        if any(_matches(self.forbidden, one) or (path.outside and self._by_its_end(one)) for one in path.exact):
            return YES
        if path.plain:
            return NO
        return self.prohibits(Path(*names_of("/".join(names).replace("\\", "/"))))

    def covers(self, path: Path) -> bool:
        first = path.names[0]
        if not (path.straight and path.plain) or any(map(_may_go_up, path.names)):
            return False
        if (path.outside and _way_out(self.allowed) != _way_out(path.names)) or (
            DRIVE.match(first) and first != self.allowed[0]
        ):
            return False
        return _matches(self.allowed, path.names)

    def below(self, roots: Sequence[str], home: str) -> list[PathPattern]:
        """Return the pattern for paths relative to a directory; empty if it matches none of them.

        Args:
            roots: absolute paths of the directory, by each of its names.
            home: absolute path of the user's home; empty if unknown.
        """
        if not leads_out(self.forbidden[0]):
            return [self]
        found = [] if self.forbidden[0] in ("", "..") else [self]  # a file's own name may begin with ``~`` or ``c:``
        for root in roots:
            names = names_of(root)[0]
            found += [PathPattern(NEVER, one) for one in _behind(_placed(self.forbidden, names, home), _bared(names))]
            found += [PathPattern(one, NEVER) for one in _behind(_placed(self.allowed, names, home), names)]
        return found

    def leads_below(self, folder: Path) -> bool:
        """Return whether it may allow a path below a folder."""
        places = frozenset({0})
        for name in folder.names if folder.names != (".",) else ():
            places = places_after(self.allowed, places, name)
        return any(place < len(self.allowed) for place in places)

    def may_meet(self, search: Sequence[str]) -> bool:
        """Return whether a path may match this pattern and a search's pattern; also if that is uncertain.

        Args:
            search: as in ``PathAccess.concerning``.
        """
        names, todo, seen = _bared(tuple(search)), [(0, 0)], set[tuple[int, int]]()
        while todo:
            place, at = todo.pop()
            if (place, at) in seen:
                continue
            seen.add((place, at))
            ours, theirs = self.forbidden[place : place + 1], names[at : at + 1]
            if not ours and not theirs:
                return True
            more, further = ours == (ANY,), theirs == (ANY,)
            todo += [(place + 1, at)] * more + [(place, at + 1)] * further
            if ours and theirs and (more or further or _may_be_same(ours[0], theirs[0])):
                todo.append((place + (not more), at + (not further)))
        return False

    def _by_its_end(self, names: Names) -> bool:
        """Return whether a path from outside may be the path in the pattern."""
        wanted, bare = _inside(self.forbidden), _inside(names)
        if self.forbidden[0] == "":
            return names[0] == ".." and _matches(wanted, bare)
        return bool(wanted) and _matches((ANY, *wanted), bare)


def _placed(pattern: Names, root: Names, home: str) -> Names:
    """Return a pattern that leads out of the directory ``root`` as an absolute one; empty if its place is unknown."""
    first, rest = pattern[0], pattern[1:]
    if first == "~" and home:
        return (*names_of(home)[0], *rest)
    if first == "..":
        ups = sum(1 for name in pattern if name == "..")
        return (*(root[:-ups] or root[:1]), *pattern[ups:])
    return pattern if first == "" else ()


def _behind(pattern: Names, root: Names) -> list[Names]:
    """Return what is left of an absolute pattern behind the names of a directory, in each way that it matches them."""
    places = frozenset({0})
    for name in root:
        places = places_after(pattern, places, name)
    return [pattern[place:] or (".",) for place in sorted(places)] if pattern else []


def places_after(pattern: Names, places: frozenset[int], name: str) -> frozenset[int]:
    """Return the places in a pattern behind one more name of a path, from those before it."""
    found = set()
    for start in places:
        for place in range(start, len(pattern)):
            if pattern[place] != ANY:
                if _same(pattern[place], name):
                    found.add(place + 1)
                break
            found.add(place)  # ``**`` is this name and perhaps more, or no name
    return frozenset(found)


def is_end(pattern: Sequence[str], place: int) -> bool:
    """Return whether a path that has reached this place matches the pattern."""
    return all(rest == ANY for rest in pattern[place:])


def _bared(names: Names) -> Names:
    return tuple(map(bare_name, names))


def _exact(names: Names, folded: Names) -> tuple[Names, ...]:
    if all(name.isascii() and name[-1:] not in (" ", ".") for name in names):
        return ()
    found = [tuple(map(fold_text, names))]
    if not all(map(str.isascii, names)):
        found.append(tuple([normalize("NFD", name).casefold() for name in names]))
    return tuple([one for one in found if one != folded])


def bare_name(name: str) -> str:
    """Return a name without differences that some systems ignore, such as trailing dots and spaces."""
    plain = fold_text(name)
    return plain.rstrip(" .") or plain


def _may_go_up(name: str) -> bool:
    """Return whether some system may read a name other than ``.`` and ``..`` as one of these."""
    return name not in ("", ".", "..") and not fold_text(name).strip(" .")


def leads_out(name: str) -> bool:
    """Return whether a first name leaves the working directory."""
    return name in ("", "..") or name[:1] == "~" or DRIVE.fullmatch(name) is not None


def _inside(names: Names) -> Names:
    """Return a path without its leading names that leave the working directory."""
    first = 0
    while first < len(names) and leads_out(names[first]):
        first += 1
    return names[first:]


def _way_out(names: Names) -> Names:
    """Return how a path leaves the working directory; an allow rule must leave it in the same way."""
    ups = tuple([name for name in names if name == ".."])
    return (names[0], *ups) if names[0] == "" or names[0][:1] == "~" else ups


def _matches(pattern: Sequence[str], names: Names) -> bool:
    """Match names with a pattern. It backtracks to the last ``**`` only, so long patterns take no extra time."""
    place = at = 0
    back, begun = -1, 0
    while at < len(names):
        if place < len(pattern) and pattern[place] == ANY:
            back, begun = place, at
            place += 1
        elif place < len(pattern) and _same(pattern[place], names[at]):
            place, at = place + 1, at + 1
        elif back >= 0:
            begun += 1
            place, at = back + 1, begun
        else:
            return False
    return is_end(pattern, place)


def _may_be_same(pattern: str, search: str) -> bool:
    """Return whether a name may match both names of patterns: compare their beginnings and ends without stars."""
    ours, theirs = pattern.split("*"), WILD.split(search)
    if len(theirs) == 1:
        return _same(pattern, search)
    if len(ours) == 1:
        return pattern.startswith(theirs[0]) and pattern.endswith(theirs[-1])
    begins = ours[0].startswith(theirs[0]) or theirs[0].startswith(ours[0])
    return begins and (ours[-1].endswith(theirs[-1]) or theirs[-1].endswith(ours[-1]))


def _same(pattern: str, name: str) -> bool:
    return pattern == name or ("*" in pattern and fits(pattern.split("*"), name))
