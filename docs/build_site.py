"""Builds the site into ``build/site/``: see ``mkdocs.yml``, and run ``make docs``.

MkDocs reads a staging directory, ``build/docs/``, with what docs/ alone does not have:

- the navigation, in the order of the links in ``docs/index.md``
- the pages of the repository's root, such as ``CHANGELOG.md``, and source files that pages link to
- the API reference, a page for each room with public names

Behind MkDocs comes every page as Markdown beside its HTML (``guides/tools/`` as ``guides/tools.md``), and ``llms.txt``,
the list of these pages. A link to a page or heading that does not exist fails the build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
sys.path.insert(0, str(ROOT))

from cognition.base.face import public_names  # noqa: E402 - after the path is set

DESCRIPTION = "Agents on local language models, as a pure step function and interpreters that carry its decisions out."
SHELVES = {"start": "Start", "guides": "Guides", "concepts": "Concepts", "reference": "Reference"}
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "README.md": "project/readme.md",
    "AGENTS.md": "project/agents.md",
    "changelog.d/README.md": "project/change-fragments.md",
    "examples/README.md": "project/examples.md",
}
"""Pages outside of ``docs/``, with their places on the site."""

API = "reference/api/"
PACKAGES = ("interpreters", "runtime", "cognition")

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
LISTED = re.compile(r"^- \[[^\]]+\]\((?P<place>[^)#\s]+)\): (?P<text>.+(?:\n  .+)*)", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def moved_links(text: str, origin: str, place: str) -> tuple[str, set[str]]:
    """Rewrite the relative links of a page that leave ``docs/``, and return the source files they lead to.

    Args:
        origin: the page in the repository, such as ``docs/guides/tools.md``.
        place: the page on the site, such as ``guides/tools.md``.
    """
    sources: set[str] = set()

    def move(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = os.path.normpath(PurePosixPath(origin).parent / target)
        if path.startswith("docs/"):
            there = path.removeprefix("docs/")
        elif path in PROJECT:
            there = PROJECT[path]
        elif (ROOT / path).is_file():
            there = f"source/{path}"
            sources.add(path)
        else:
            return link[0]  # MkDocs reports it
        relative = os.path.relpath(there, PurePosixPath(place).parent)
        return f"[{link['text']}]({relative}{link['anchor'] or ''})"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(move, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(move, text[end:])]), sources


def title_of(text: str) -> str:
    """Return the text of a page's first heading."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return plain(heading[1]) if heading else ""


def summary_of(text: str) -> str:
    """Return the first sentence of a page's first paragraph."""
    for paragraph in re.split(r"\n\s*\n", FENCE.sub("", text)):
        if paragraph.strip() and not paragraph.lstrip().startswith(("#", "|", "-", "<", ">", "    ")):
            words = plain(" ".join(paragraph.split()))
            return re.split(r"(?<=[.!?:])\s", words)[0].rstrip(":")
    return ""


def plain(text: str) -> str:
    """Return a line of Markdown without links and code marks."""
    return LINK.sub(lambda link: link["text"], text).replace("`", "").strip()


def order_of(index: str) -> dict[str, int]:
    """Return the position of each page's first link in the text of ``docs/index.md``."""
    places = (os.path.normpath(link["target"]) for link in LINK.finditer(FENCE.sub("", index)))
    return {place: number for number, place in enumerate(dict.fromkeys(places))}


def ordered(pages: Iterable[str], index: str) -> list[str]:
    """Sort pages by their links in ``docs/index.md``. Pages without one come last, by name."""
    order = order_of(index)
    return sorted(pages, key=lambda page: (order.get(page, len(order)), page))


def summaries(index: str) -> dict[str, str]:
    """Return the text behind each page's link in a list of ``docs/index.md``."""
    return {item["place"]: plain(" ".join(item["text"].split())) for item in LISTED.finditer(index)}


def llms_text(index: str, pages: Mapping[str, str]) -> str:
    """Return ``llms.txt``: the shelves of ``docs/index.md`` with a title, a link and a summary for each page."""
    parts, listed = [f"# {title_of(index)}\n\n> {DESCRIPTION}\n"], summaries(index)
    for shelf, name in [*SHELVES.items(), ("project", "Project")]:
        lines = [
            f"- [{title_of(pages[page])}]({page}): {listed.get(page) or summary_of(pages[page])}"
            for page in ordered((page for page in pages if page.startswith(f"{shelf}/")), index)
        ]
        if lines:
            parts.append(f"## {name}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------ API reference


def rooms() -> dict[str, dict[str, str]]:
    """Return the pages of the API reference: for each room its public names, each with its full path."""
    found: dict[str, dict[str, str]] = {}
    for package in PACKAGES:
        for name, home in public_names(package).items():
            depth = 3 if home.startswith("cognition.steps") else 2  # the vocabulary of the core is one room
            found.setdefault(".".join(home.split(".")[:depth]), {})[name] = f"{home}.{name}"
    return dict(sorted(found.items(), key=lambda room: (PACKAGES.index(room[0].split(".")[0]), room[0])))


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield each page of the API reference with its text for MkDocs."""
    rows = ""
    for room, names in rooms().items():
        links = ", ".join(f"[`{name}`]({room}.md#{path})" for name, path in sorted(names.items()))
        rows += f"| [`{room}`]({room}.md) | {links} |\n"
    yield (
        "reference/api/index.md",
        "# API\n\nAll public names, by the room that defines them. You import each one from `cogstep`:"
        f" `from cogstep import Agent`.\n\n| room | names |\n|---|---|\n{rows}",
    )
    for room, names in rooms().items():
        listed = ", ".join(f"`{name}`" for name in names)
        blocks = "\n\n".join(f"::: {path}" for path in names.values())
        yield f"reference/api/{room}.md", f"# {room}\n\nYou import {listed} from `cogstep`.\n\n{blocks}\n"


def api_markdown(pages: Mapping[str, str]) -> dict[str, str]:
    """Replace the directives of the API pages by signatures and docstrings, for the pages as Markdown."""
    import griffe

    extensions = griffe.load_extensions(str(DOCS / "doctest_fences.py"))
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], extensions=extensions)
    for package in PACKAGES:
        loader.load(package)

    def show(directive: re.Match[str]) -> str:
        found = loader.modules_collection[directive[1]]
        return "\n\n".join(described(found.final_target if found.is_alias else found, found.name))

    return {page: re.sub(r"^::: (\S+)$", show, text, flags=re.MULTILINE) for page, text in pages.items()}


def described(thing: Any, name: str) -> Iterator[str]:
    """Yield the Markdown of one documented object: its heading, signature, docstring, and public members."""
    yield f"{'#' * (2 + name.count('.'))} {name}"
    if thing.is_function:
        yield f"```python\n{signature_of(thing, name)}\n```"
    if thing.docstring:
        yield str(thing.docstring.value)
    if thing.is_class or thing.is_module:
        members = thing.all_members if thing.is_class else thing.members
        for member in members.values():
            own = not member.is_alias or member.inherited
            if own and member.is_public and member.has_docstring and not (name.count(".") and member.is_class):
                yield from described(member, f"{name}.{member.name}")


def signature_of(function: Any, name: str) -> str:
    arguments = []
    star = False
    for parameter in function.parameters:
        kind = parameter.kind.value if parameter.kind else ""
        if parameter.name in ("self", "cls"):
            continue
        if kind == "keyword-only" and not star:
            arguments.append("*")
        star = star or kind in ("keyword-only", "variadic positional")
        mark = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{mark}{parameter.name}" + (f": {parameter.annotation}" if parameter.annotation else "")
        arguments.append(text + (f" = {parameter.default}" if parameter.default and not mark else ""))
    return f"{name}({', '.join(arguments)})" + (f" -> {function.returns}" if function.returns else "")


# --------------------------------------------------------------------------------------------------------- the build


def staged_pages() -> tuple[dict[str, str], set[str]]:
    """Return the text of each page of the site by its place, and the source files that pages link to."""
    origins = {path.relative_to(ROOT).as_posix(): path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages, sources = dict(api_pages()), set[str]()
    for origin, place in (origins | PROJECT).items():
        pages[place], linked = moved_links((ROOT / origin).read_text("utf-8"), origin, place)
        sources |= linked
    return pages, sources


def navigation(pages: Mapping[str, str]) -> list[Any]:
    """Return the navigation of the site: the shelves, with the API reference in the last, and the project's pages."""
    index = pages["index.md"]
    nav: list[Any] = [{"Home": "index.md"}]
    for shelf, name in SHELVES.items():
        listed: list[Any] = ordered((page for page in pages if PurePosixPath(page).parent.as_posix() == shelf), index)
        if shelf == "reference":
            listed.append({"API": [page for page in pages if page.startswith(API)]})
        nav.append({name: listed})
    return [*nav, {"Project": list(PROJECT.values())}]


def stage(folder: Path) -> dict[str, str]:
    """Write what MkDocs reads into a folder, and return the text of each page by its place."""
    pages, sources = staged_pages()
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in pages.items():
        write(folder / "pages" / place, text)
    for source in sources:
        write(folder / "pages/source" / source, (ROOT / source).read_text("utf-8"))
    base = os.path.relpath(ROOT / "mkdocs.yml", folder)
    settings = {"INHERIT": base, "docs_dir": "pages", "site_dir": str(SITE), "nav": navigation(pages)}
    write(folder / "mkdocs.yml", json.dumps(settings, indent=2))  # JSON is YAML
    return pages


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def main() -> int:
    folder = ROOT / "build" / "docs"
    pages = stage(folder)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if done.returncode:
        return done.returncode
    reference = api_markdown({place: text for place, text in pages.items() if place.startswith(API)})
    for place, text in (pages | reference).items():
        write(SITE / place, text)
    write(SITE / "llms.txt", llms_text(pages["index.md"], pages))
    print(f"{len(pages)} pages in {SITE.relative_to(ROOT)}/: open {SITE.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
