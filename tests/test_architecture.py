"""The core is pure and imports only point down: proved from the source, module by module, and from a fresh process."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = ("cognition", "runtime", "interpreters")
"""From the bottom up: a package imports itself and those before it."""

PURE_STANDARD_LIBRARY = frozenset(
    {
        "__future__", "abc", "ast", "base64", "binascii", "bisect", "collections", "copy", "decimal", "difflib", "enum",
        "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "keyword", "math", "numbers",
        "importlib",  # for names that are loaded at their first use; what loading them brings in is looked at below
        "operator", "re", "reprlib", "string", "struct", "textwrap", "types", "typing", "unicodedata", "zlib",
    }
)  # fmt: skip
"""What the core may use of the standard library. A list of what is allowed, so that every new module is judged: it
reads no clock, draws no randomness, does no I/O, and has no threads and nothing asynchronous."""

CORE_DEPENDENCIES = frozenset({"attr", "attrs", "cattr", "cattrs"})

TESTING_DEPENDENCIES = frozenset({"hypothesis"})
"""What ``cognition.testing`` may use besides: the laws are shipped to users as properties."""

WATCHING = {"cognition.testing._purity": frozenset({"sys"})}
"""What one module may use besides: the kit of the laws watches engines as they run, by the profile hook in ``sys``."""

IMPURE_BUILTINS = {
    "open": "reads or writes a file",
    "print": "writes to the terminal",
    "input": "reads from the terminal",
    "breakpoint": "stops for a debugger",
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code from text",
    "__import__": "imports what no linter sees",
    "id": "differs from one process to the next, so a replay would too",
    "hash": "of a text differs from one process to the next, so a replay would too; only __hash__ may ask for it",
}

CHANGERS = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "intersection_update",
        "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update",
    }
)  # fmt: skip
"""Methods that change the value they are called on."""

BACKENDS = frozenset(
    {
        "httpcore2", "httpx2", "huggingface_hub", "jinja2", "llama_cpp", "mlx", "mlx_lm", "numpy", "tokenizers",
        "torch", "transformers",
    }
)  # fmt: skip

LONG_MODULE = 500
"""Lines beyond which a module has to be looked at: may its subject be split?"""
LONGEST_MODULE = 800
"""Lines. A module has one subject and is readable in one sitting."""

FACE = "cognition.base.face"
"""Loads the public names of a package by name, at their first use, and nothing else."""

MOST_FILES = {"cognition": 2, "runtime": 12, "interpreters": 2}
"""Files at the top of a package: the rest is in its rooms."""

NOT_IMPORTED = {
    "cognition.context.tiers", "cognition.testing.machine", "cognition.testing.strategies", "runtime.isolated.child",
    "runtime.templates.renderer_process", "interpreters.durable.temporal.workflow",
    "interpreters.testing.contracts", "interpreters.testing.durable",
    "interpreters.testing.matchers", "interpreters.testing.pytest_plugin", "interpreters.testing.recorders",
    "interpreters.observing.events", "interpreters.cli.main", "interpreters.hosting.host_main",
    "interpreters.toolbox.line_search", "runtime.children.boot", "runtime.children.supervisor",
}  # fmt: skip
"""Public modules that may be imported within their room alone: for users, or started as programs."""

PACKAGES = (*LAYERS, "cogstep")
"""Their faces name everything that is public, so they are no part of a circle: no module is understood through them."""


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    """The package that relative imports of a module begin at."""
    return module_name(path) if path.name == "__init__.py" else module_name(path.parent)


def imported_modules(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Every import, wherever it stands, as (line, full module name); ``package`` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, package)
            if node.level and not node.module:
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base


def inner_imports(source: str, package: str, modules: frozenset[str]) -> set[str]:
    """Those of these modules that a module imports, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, package)
            named = [f"{base}.{alias.name}" for alias in node.names]
            found.update(name if name in modules else base for name in named)
    return found & modules


def circles(imports: Mapping[str, set[str]]) -> set[tuple[str, ...]]:
    """Modules that import each other, directly or through others: each group of them once, sorted."""
    reached = {module: reachable(module, imports) for module in imports}
    return {
        (*sorted(one for one in reached[module] if module in reached.get(one, ())),)
        for module in imports
        if module in reached[module]
    }


def reachable(module: str, imports: Mapping[str, set[str]]) -> set[str]:
    """The modules that one leads to by its imports; itself only where they lead back."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def imported_from(node: ast.ImportFrom, package: str) -> str:
    """The full name of what stands behind ``from``."""
    anchor = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*anchor, *([node.module] if node.module else [])])


def impure_builtins(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[ast.Name]:
    """Where an impure builtin is meant; ``bound`` holds the names that mean something else, as a parameter may."""
    match node:
        case ast.FunctionDef(name=function) | ast.AsyncFunctionDef(name=function):
            bound |= names_bound_in(node) | ({"hash"} if function == "__hash__" else set())
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            bound |= names_bound_in(node)
        case ast.Name(id=name, ctx=ast.Load()) if name in IMPURE_BUILTINS and name not in bound:
            yield node
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from impure_builtins(child, bound)


def names_bound_in(scope: ast.AST) -> set[str]:
    """The parameters of a function and the names it assigns."""
    return {
        name
        for node in ast.walk(scope)
        for name in (
            node.arg if isinstance(node, ast.arg) else None,
            node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None,
            node.name if isinstance(node, ast.MatchAs | ast.MatchStar) else None,
        )
        if name is not None
    }


def changed_globals(tree: ast.Module) -> Iterator[ast.expr]:
    """Where a function changes a value that its module holds, so that the next call may answer otherwise."""
    held = {name for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef) for name in stored(node)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    for function in functions:
        known = held - names_bound_in(function)
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in CHANGERS:
                    found = name
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                    found = name
                case _:
                    continue
            if found in known:
                assert isinstance(node, ast.expr)
                yield node


def stored(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def loaded_by_name(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Modules that are imported by a text; only the core's own may be, and the text has to say so."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[named, *_]):
                parts = named.values if isinstance(named, ast.JoinedStr) else [named]
                text = parts[0].value if parts and isinstance(parts[0], ast.Constant) else ""
                if not (isinstance(text, str) and f"{text}.".startswith("cognition.")):
                    yield node.lineno, ast.unparse(named)
            case _:
                pass


def impurities(source: str, *, package: str = "cognition", extra: frozenset[str] = frozenset()) -> list[str]:
    """What a module of the core must not do, one line for each place where it does."""
    tree = ast.parse(source)
    allowed = PURE_STANDARD_LIBRARY | CORE_DEPENDENCIES | extra | {"cognition"}
    found = [
        f"line {line}: imports {name}"
        for line, name in imported_modules(tree, package)
        if name.split(".")[0] not in allowed
    ]
    if FACE not in extra:
        found += [f"line {line}: imports {text} by name" for line, text in loaded_by_name(tree)]
    found += [
        f"line {node.lineno}: changes what the module holds, so the same input may give another answer"
        for node in changed_globals(tree)
    ]
    found += [f"line {name.lineno}: {name.id} {IMPURE_BUILTINS[name.id]}" for name in impure_builtins(tree)]
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append(f"line {node.lineno}: is asynchronous")
            case ast.comprehension(is_async=1):
                found.append(f"line {node.target.lineno}: is asynchronous")
            case ast.Global():
                found.append(f"line {node.lineno}: changes a global, so the same input may give another answer")
    return found


def upward_imports(source: str, package: str, layer: str) -> list[str]:
    """The imports of a module that point to a layer above its own."""
    above = LAYERS[LAYERS.index(layer) + 1 :]
    return [
        f"line {line}: {layer} imports {name}"
        for line, name in imported_modules(ast.parse(source), package)
        if name.split(".")[0] in above
    ]


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh process holds after running ``statement``."""
    code = f"import sys\n{statement}\nimport json\nsys.stdout.write(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


@pytest.mark.parametrize("path", modules_of("cognition"), ids=module_name)
def test_the_core_is_pure(path: Path) -> None:
    """A module of ``cognition`` imports and calls nothing that could make a step depend on more than its arguments."""
    extra = TESTING_DEPENDENCIES if module_name(path).startswith("cognition.testing") else frozenset()
    extra |= WATCHING.get(module_name(path), frozenset()) | ({FACE} & {module_name(path)})

    assert impurities(path.read_text("utf-8"), package=package_of(path), extra=extra) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_only_point_down(layer: str) -> None:
    """No package imports a package above it, not even inside a function."""
    found = {
        module_name(path): upward
        for path in modules_of(layer)
        if (upward := upward_imports(path.read_text("utf-8"), module_name(path.parent), layer))
    }

    assert found == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other(package: str) -> None:
    """Whoever reads a module has to know those below it, never one that has to know it in turn."""
    paths = {module_name(path): path for path in modules_of(package)}
    modules = frozenset(paths.keys() - {package})
    imports = {
        name: inner_imports(path.read_text("utf-8"), package_of(path), modules)
        for name, path in paths.items()
        if name in modules
    }

    assert circles(imports) == set()
    assert imports, f"{package} has no modules: the test looks in the wrong place"


@pytest.mark.parametrize("layer", LAYERS)
def test_every_module_is_readable_in_one_sitting(layer: str) -> None:
    lengths = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in modules_of(layer)}

    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
    assert lengths, f"{layer} has no modules: the test looks in the wrong place"
    for name, length in lengths.items():
        if length > LONG_MODULE:
            print(f"{name} has {length} lines: does its subject split?")


@pytest.mark.parametrize("layer", LAYERS)
def test_the_rooms_hold_the_modules(layer: str) -> None:
    """At the top of a package is its face, and in ``runtime`` what all of its rooms share."""
    assert len(list((ROOT / layer).glob("*.py"))) <= MOST_FILES[layer]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_module_is_private_if_only_its_room_imports_it(layer: str) -> None:
    """The name of a module shows whether other rooms depend on it: ``_name`` belongs to its room alone."""
    modules = frozenset(module_name(path) for package in PACKAGES for path in modules_of(package))
    users: dict[str, set[str]] = {name: set() for name in modules}
    for package in PACKAGES:
        for path in modules_of(package):
            for name in inner_imports(path.read_text("utf-8"), package_of(path), modules) - {module_name(path)}:
                users[name].add(module_name(path))
    private, public = [], []
    for path in modules_of(layer):
        name = module_name(path)
        room, _, last = name.rpartition(".")
        if path.name == "__init__.py" or room in PACKAGES or name in NOT_IMPORTED:
            continue
        is_inner = all(user == room or user.startswith(f"{room}.") for user in users[name])
        (private if is_inner else public).append((name, last.startswith("_")))

    assert [name for name, marked in private if not marked] == [], "only their own room imports these: begin with `_`"
    assert [name for name, marked in public if marked] == [], "other rooms import these: no `_` in front"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_says_that_it_is_typed(layer: str) -> None:
    """Type checkers of users see our types."""
    assert (ROOT / layer / "py.typed").is_file()


@pytest.mark.parametrize("package", [*LAYERS, "interpreters.cli.main"])
def test_importing_a_package_loads_no_backend(package: str) -> None:
    """The base install has no backend, and who has one pays for it only when a model is loaded."""
    loaded = {name.split(".")[0] for name in modules_after(f"import {package}")}

    assert loaded & BACKENDS == set()


def test_importing_the_core_loads_nothing_that_could_make_it_impure() -> None:
    """Beyond what attrs and cattrs load themselves, a fresh process holds only the core and pure modules."""
    core = [name for path in modules_of("cognition") if not (name := module_name(path)).startswith("cognition.testing")]
    loaded = modules_after(f"import {', '.join(core)}")
    brought = (loaded - modules_after("import attrs, cattrs")) | (loaded & {"asyncio", "hypothesis"})
    allowed = PURE_STANDARD_LIBRARY | CORE_DEPENDENCIES | {"cognition", "blake2"}  # hashlib's C half for blake2b

    # A leading underscore marks the C half of a module of the standard library (_json, _decimal).
    assert {name for name in brought if name.split(".")[0].lstrip("_") not in allowed} == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time", "line 1: imports time"),
        ("import os.path as p", "line 1: imports os.path"),
        ("from random import Random", "line 1: imports random"),
        ("def f():\n    import asyncio", "line 2: imports asyncio"),
        ("from runtime import load_model", "line 1: imports runtime"),
        ("import hypothesis", "line 1: imports hypothesis"),
        ("text = open('x').read()", "line 1: open reads or writes a file"),
        ("list(map(print, 'x'))", "line 1: print writes to the terminal"),
        ("name = input()", "line 1: input reads from the terminal"),
        ("def f(text=''):\n    return [input(x) for x in text]", "line 2: input reads from the terminal"),
        ("def f(input):\n    return input\ninput()", "line 3: input reads from the terminal"),
        ("async def f(): pass", "line 1: is asynchronous"),
        ("count = 0\ndef f():\n    global count\n    count += 1", "line 3: changes a global"),
        ("from importlib import import_module\nimport_module('time')", "line 2: imports 'time' by name"),
        ("import importlib\ndef f(x):\n    importlib.import_module(x)", "line 3: imports x by name"),
        ("seen = []\ndef f(x):\n    seen.append(x)", "line 3: changes what the module holds"),
        (
            "seen: dict = {}\nclass A:\n    def f(self, x):\n        seen[x] = 1",
            "line 4: changes what the module holds",
        ),
        ("a, seen = 1, set()\nf = lambda x: seen.add(x)", "line 2: changes what the module holds"),
        ("def jitter(x):\n    return hash(x) % 7", "line 2: hash of a text differs"),
    ],
)
def test_the_proof_finds_what_is_impure(source: str, expected: str) -> None:
    """The check above can fail: each kind of impurity is found, with its line."""
    (found,) = impurities(source)

    assert found.startswith(expected)


@pytest.mark.parametrize(
    "source",
    [
        "from attrs import frozen\nimport cattrs\nimport json",
        "from cognition.base.errors import CogstepError",
        "from . import errors\nfrom .messages import ToolCall",
        "class A:\n    def __hash__(self):\n        return hash((1, 2))",
        "def f(policy):\n    return policy.open, policy.input()",
        "def step(state, input):\n    return [input for id in state if id]",
        "def step(state, event):\n    match event:\n        case object(id=id):\n            return id",
        "from importlib import import_module\ndef f(x):\n    return import_module(f'cognition.{x}')",
        "seen = {}\nseen['x'] = 1\ndef f(seen):\n    seen.append(1)\n    kept = []\n    kept.append(seen)",
        'def f():\n    """Docstrings may say print(), open() and await."""',
    ],
)
def test_the_proof_lets_pure_code_pass(source: str) -> None:
    """What only looks alike is no finding."""
    assert impurities(source) == []


@pytest.mark.parametrize(
    ("layer", "package", "source", "expected"),
    [
        ("cognition", "cognition", "import runtime.spec", ["line 1: cognition imports runtime.spec"]),
        ("runtime", "runtime", "from interpreters import Agent", ["line 1: runtime imports interpreters"]),
        ("runtime", "runtime.llama", "from ..spec import ModelSpec\nfrom cognition import AgentState", []),
        ("interpreters", "interpreters", "import runtime, cognition", []),
    ],
)
def test_the_proof_finds_imports_that_point_up(layer: str, package: str, source: str, expected: list[str]) -> None:
    """The check above can fail, and relative imports are resolved."""
    assert upward_imports(source, package, layer) == expected


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"a": "import a.b", "a.b": "import a.c", "a.c": "import json"}, set()),
        ({"a.b": "import a.c", "a.c": "def f():\n    from a.b import x"}, {("a.b", "a.c")}),
        ({"a.b": "from a import c", "a.c": "if TYPE_CHECKING:\n    from .b import x"}, {("a.b", "a.c")}),
        ({"a.b": "from a.d import c", "a.d": "", "a.d.c": "from ..b import x"}, {("a.b", "a.d.c")}),
        (
            {"a.b": "import a.c", "a.c": "import a.d", "a.d": "import a.b", "a.e": "import a.b"},
            {("a.b", "a.c", "a.d")},
        ),
        (
            {"a.b": "import a.c", "a.c": "import a.b, a.d", "a.d": "import a.e", "a.e": "import a.d"},
            {("a.b", "a.c"), ("a.d", "a.e")},
        ),
    ],
)
def test_the_proof_finds_circles(sources: dict[str, str], expected: set[tuple[str, ...]]) -> None:
    """The check above can fail: a circle is found wherever its imports stand, and what only leads to one is none."""
    modules = frozenset(sources)
    imports = {name: inner_imports(text, name.rpartition(".")[0], modules) for name, text in sources.items()}

    assert circles(imports) == expected
