"""The examples of README.md and docs/ run, print what they say they print, and leave nothing out; links lead somewhere.

A fenced block marked ``python`` is an example. The blocks of one page run in order and share their names, so a page
reads as one story. What an example prints stands in it as comments, one for each line: ``#> 17 * 23 is 391.``.
"""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

MODULES = {"restate": "restate", "temporal": "temporalio"}

FENCE = re.compile(r"^ *```+ *([^`\n]*?) *\n(?:.*?\n)?? *```+ *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
PRINTED = re.compile(r"^ *#> ?(.*)$", re.MULTILINE)


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse_page(path: Path) -> Document:
    page = Sybil(parsers=[CodeBlockParser("python", PythonEvaluator())], patterns=["*.md"], path=str(ROOT)).parse(path)
    page.namespace["__name__"] = "__main__"  # an example is run as a script is
    return page


def placeholders(source: str) -> list[int]:
    """The lines on which ``...`` stands for code left out; in a type, as in ``tuple[int, ...]``, it stands for none."""
    tree = ast.parse(source)
    in_types = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.Subscript) for inner in ast.walk(node.slice)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value is ... and id(node) not in in_types
    ]


def check_example(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    """Run one example; raise what it raises, or an AssertionError where it says something else than it does."""
    source = str(example.parsed)
    assert placeholders(source) == [], f"line {example.line}: an example leaves nothing out"
    example.evaluate()

    assert PRINTED.findall(source) == capsys.readouterr().out.splitlines(), f"line {example.line}"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_examples_run_and_print_what_they_say(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each example runs as it is printed, in an empty directory, on the model that ships where it asks for one."""
    if "load_model" in path.read_text("utf-8") and not (find_spec("llama_cpp") or find_spec("mlx")):
        pytest.skip("the page loads a model, and no backend is installed")
    if 'backend="llama"' in path.read_text("utf-8") and not find_spec("llama_cpp"):
        pytest.skip("the page is about llama.cpp, which is not installed")
    for extra in ("restate", "temporal"):
        if f"interpreters.durable.{extra} " in path.read_text("utf-8") and not find_spec(MODULES[extra]):
            pytest.skip(f"the page needs the extra {extra}, which is not installed")
    monkeypatch.chdir(tmp_path)

    for example in parse_page(path).examples():
        check_example(example, capsys)


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_no_example_escapes_the_check(path: Path) -> None:
    """Python blocks are marked ``python`` and nothing else: ``py`` or ``pycon`` would never be run."""
    languages = FENCE.findall(path.read_text("utf-8"))

    assert [name for name in languages if name.startswith("py") and name != "python"] == []
    assert languages.count("python") == len(list(parse_page(path).examples()))


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_links_lead_to_files_that_exist(path: Path) -> None:
    """A relative link of a page leads to a file of this repository."""
    targets = [target for target in LINK.findall(path.read_text("utf-8")) if "://" not in target]

    assert [target for target in targets if not (path.parent / target).exists()] == []


ARCHITECTURE = ROOT / "docs/concepts/architecture.md"
SOURCES = [path for room in ("cognition", "runtime", "interpreters", "cogstep") for path in (ROOT / room).rglob("*.py")]


def sources_named(name: str) -> list[Path]:
    """The modules whose path ends with a name such as ``loop/sync.py``, and a file beside the packages."""
    return [path for path in (*SOURCES, ROOT / name) if f"/{path.as_posix()}".endswith(f"/{name}") and path.is_file()]


def functions_of(path: Path) -> set[str]:
    """The functions of a module, and its methods with the name of their class and without."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_each_file_that_the_architecture_page_names_exists() -> None:
    """A page that names files is wrong as soon as one of them moves."""
    names = sorted({*re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.read_text("utf-8"))})

    assert names
    assert [name for name in names if not sources_named(name)] == []


def test_each_function_of_the_walks_is_in_the_file_of_its_row() -> None:
    """The walks and the table of questions on the page on the architecture name functions of ours, and their files."""
    walks = ARCHITECTURE.read_text("utf-8").split("## Three walks")[1].split("\n## Add an input")[0]
    rows = [line.split("|")[2:4] for line in walks.splitlines() if line.startswith("|") and "`" in line]
    missing = [
        (name, files)
        for functions, files in rows
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", functions)
        if not any(
            name in functions_of(path) for file in re.findall(r"`([\w/]+\.py)`", files) for path in sources_named(file)
        )
    ]

    assert len(rows) > 10
    assert missing == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    ...", [2]),
        ("agent = Agent(...)", [1]),
        ("x: tuple[int, ...] = (1,)", []),
        ("text = 'and so on ...'", []),
    ],
)
def test_placeholders_are_told_from_types(source: str, expected: list[int]) -> None:
    """The check for what is left out can fail, and knows the other meaning of ``...``."""
    assert placeholders(source) == expected


@pytest.mark.parametrize("block", ["print(1 + 1)\n#> 2", "x = 1"])
def test_a_right_example_passes(block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed lines stand in the example as comments."""
    check_example(only_example_of(block, tmp_path), capsys)


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("print(1 + 1)\n#> 3", AssertionError),
        ("print(1 + 1)", AssertionError),
        ("x = 1\n#> 1", AssertionError),
        ("def f():\n    ...", AssertionError),
        ("raise KeyError", KeyError),
    ],
)
def test_a_wrong_example_is_found(
    block: str, error: type[Exception], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check can fail: on what an example raises, prints, doesn't print, or leaves out."""
    with pytest.raises(error):
        check_example(only_example_of(block, tmp_path), capsys)


def only_example_of(block: str, directory: Path) -> Example:
    page = directory / "page.md"
    page.write_text(f"# A page\n\n```python\n{block}\n```\n", "utf-8")
    (example,) = parse_page(page).examples()
    return example
