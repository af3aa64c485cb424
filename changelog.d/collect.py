"""Collects the fragments of ``changelog.d/`` into ``CHANGELOG.md``. ``changelog.d/README.md`` describes them.

Without options it checks them and prints the next section; ``--release`` and ``--date`` move them into the change log::

    python changelog.d/collect.py --release 0.2.0 --date 2027-01-15
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

FRAGMENTS = Path(__file__).resolve().parent
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
MARK = "<!-- releases -->\n"
"""The line of the change log below which the newest release comes."""
WORDS = 30


def read_fragments(folder: Path) -> dict[Path, str]:
    """Return the sentence of each fragment.

    Raises:
        ValueError: a fragment has a wrong name, or its text is not one sentence.
    """
    fragments: dict[Path, str] = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        text = " ".join(path.read_text("utf-8").split())
        if kind_of(path) not in KINDS or path.name.count(".") != 2:
            raise ValueError(f"{path.name}: name it SUBJECT.KIND.md, with a KIND of {', '.join(KINDS)}")
        if not text.endswith((".", ".)", ").")) or ". " in text:
            raise ValueError(f"{path.name}: write one sentence that ends with a full stop")
        if len(text.split()) > WORDS:
            raise ValueError(f"{path.name}: {len(text.split())} words; write at most {WORDS}")
        fragments[path] = text
    return fragments


def kind_of(path: Path) -> str:
    return path.name.split(".")[-2]


def section_of(fragments: dict[Path, str], title: str) -> str:
    """Return the section of a release, with a heading for each kind of change."""
    parts = [f"## {title}\n"]
    for kind in KINDS:
        lines = [f"- {text}" for path, text in fragments.items() if kind_of(path) == kind]
        if lines:
            parts.append(f"### {kind.capitalize()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None, *, folder: Path = FRAGMENTS) -> int:
    parser = argparse.ArgumentParser(description="Collect the fragments of changelog.d/ into CHANGELOG.md.")
    parser.add_argument("--release", metavar="VERSION", help="move the fragments into the change log")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="the day of the release")
    options = parser.parse_args(arguments)
    if (options.release is None) != (options.date is None):
        parser.error("--release and --date belong together")
    try:
        fragments = read_fragments(folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if options.release is None:
        print(section_of(fragments, "Unreleased"), end="")
        return 0
    log = folder.parent / "CHANGELOG.md"
    before, mark, after = log.read_text("utf-8").partition(MARK)
    if not mark or not fragments:
        print("nothing to release" if mark else f"{log} has no line {MARK.strip()!r}", file=sys.stderr)
        return 1
    section = section_of(fragments, f"{options.release} - {options.date}")
    log.write_text(f"{before}{mark}\n{section}{after}", "utf-8")
    for path in fragments:
        path.unlink()
    print(f"{len(fragments)} changes moved into {log.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
