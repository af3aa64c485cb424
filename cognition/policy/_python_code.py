"""Recognise Python code that runs no program and writes no file: a closed world of names, attributes and syntax.

Whatever is not in these tables is not harmless. Modules are only the root of a dotted name of the tables, so that no
variable holds one; a function that is called is a builtin of the list, a name of a module's list, or a method.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from cognition.policy._command import reads_input

LONGEST = 4_000
"""The most characters of code that is looked at."""
DEEPEST = 20
"""The most brackets within each other, and about the most levels of expressions."""
ODD = re.compile(r"#.*coding|\\[^\\'\"nrt0]|\b\d[\d_.]*(?!e\d+\b)[A-Za-z]")
"""Texts that versions of Python read differently or warn about: other encodings and escapes, ``1if x``."""
ODD_IN_FORMAT = re.compile(r"[\\#\n]")

BUILTINS = frozenset(
    """
    Exception False ImportError KeyError None True ValueError abs all any ascii bin bool bytes chr complex dict divmod
    enumerate exit filter float frozenset hash hex int isinstance iter len list map max min next oct ord pow print range
    repr reversed round set slice sorted str sum tuple zip
    """.split()
)
"""Builtins that run nothing but the functions that they are given."""
EVERY_BUILTIN = BUILTINS | frozenset(
    """
    aiter anext apply basestring breakpoint buffer bytearray callable classmethod cmp coerce compile copyright credits
    delattr dir eval exec execfile file format getattr globals hasattr help id input intern issubclass license locals
    long memoryview object open property quit raw_input reduce reload setattr staticmethod super type unichr unicode
    vars xrange
    """.split()
)
"""All of them, with those of Python 2: no variable has such a name."""

MODULES = {
    "base64": "b64decode b64encode urlsafe_b64decode urlsafe_b64encode",
    "calendar": "isleap monthrange",
    "collections": "Counter OrderedDict defaultdict",
    "csv": "DictReader reader",
    "datetime": "UTC date date.fromisoformat date.today datetime datetime.fromisoformat datetime.fromtimestamp "
    "datetime.now datetime.utcnow timedelta timezone timezone.utc",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "glob": "glob",
    "hashlib": "md5 sha1 sha256 sha512",
    "itertools": "chain combinations count islice permutations product",
    "json": "dumps load loads",
    "math": "ceil comb cos e exp factorial floor gcd isqrt log log10 log2 pi pow prod sin sqrt tan tau",
    "os": "cpu_count environ environ.get getcwd getenv getpid linesep listdir name path.abspath path.basename "
    "path.dirname path.exists path.expanduser path.getsize path.isdir path.isfile path.join path.realpath sep",
    "platform": "machine node platform python_version release system",
    "random": "choice randint random sample",
    "re": "I M S findall fullmatch match search split sub",
    "secrets": "choice randbelow token_hex token_urlsafe",
    "socket": "gethostname",
    "ssl": "OPENSSL_VERSION",
    "statistics": "mean median mode stdev",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits punctuation",
    "struct": "calcsize",
    "sys": "argv byteorder executable exit getdefaultencoding maxsize path platform prefix stderr stdin stdin.read "
    "stdin.readline stdout version version_info version_info.major version_info.minor",
    "sysconfig": "get_path get_paths",
    "textwrap": "dedent fill indent",
    "time": "perf_counter sleep strftime time",
    "unicodedata": "category name normalize",
    "urllib.parse": "parse_qs quote quote_plus unquote unquote_plus urlencode urlparse",
    "uuid": "uuid4",
}
"""Modules with those of their names that run nothing, but the functions that they are given."""
NAMES = {module: frozenset(names.split()) for module, names in MODULES.items()}

METHODS = frozenset(
    """
    add append capitalize casefold count days decode encode endswith extend find format get group groups hex hexdigest
    hour index isalpha isdigit isoformat items join keys ljust lower lstrip microsecond minute month most_common name
    partition read readline readlines replace rfind rjust rpartition rsplit rstrip second seconds sort split splitlines
    startswith stem strftime strip suffix title total_seconds update upper values weekday year zfill
    """.split()
)
"""Attributes of texts, numbers, collections, dates and files that are open for reading."""

OF_ANY_MODULE = frozenset({"__file__", "__name__", "__path__", "__version__"})
STARTING = frozenset({"antigravity", "idlelib", "test", "this", "turtledemo"})
"""Modules that do something when they are imported."""
SEARCHED = frozenset({"argv", "environ", "modules", "path"})
"""Attributes with which a module that is not in the list could be given something to run."""

PLAIN: tuple[type[ast.AST], ...] = (
    *(ast.Module, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.If, ast.For, ast.While, ast.With, ast.withitem),
    *(ast.Try, ast.ExceptHandler, ast.Assert, ast.Raise, ast.Assign, ast.AugAssign, ast.BoolOp, ast.BinOp, ast.UnaryOp),
    *(ast.Compare, ast.IfExp, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Subscript, ast.Slice),
    *(ast.Starred, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.JoinedStr),
    *(ast.FormattedValue, ast.keyword, ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
)
"""Syntax that only combines its parts. What binds a name is checked by ``_bound``."""


class PythonCode(NamedTuple):
    """The verdict on a text of Python code."""

    harmless: bool
    imports: bool = False
    """Whether it also imports modules that are not in the list: it runs their code, as a script does."""


def read_python(code: str) -> PythonCode:
    """Return whether code runs no program, writes no file, and reads no code."""
    if len(code) > LONGEST or not code.isascii() or ODD.search(code) or _bracket_depth(code) > DEEPEST:
        return PythonCode(False)
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonCode(False)
    return _Reader(code).read(tree) if _is_shallow(tree) else PythonCode(False)


def _bracket_depth(code: str) -> int:
    """Return the most brackets within each other; those of texts count too."""
    depth = deepest = 0
    for letter in code:
        if letter in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in ")]}":
            depth -= 1
    return deepest


def _is_shallow(tree: ast.AST) -> bool:
    level = [tree]
    for _ in range(4 * DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


class _Reader:
    """The names that code has bound so far."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.modules: dict[str, str] = {}
        """The names of modules, with their paths."""
        self.functions: set[str] = set()
        """Names that were imported from a module's list."""
        self.variables: set[str] = set()
        self.imports = False

    def read(self, tree: ast.Module) -> PythonCode:
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and not self._import(node):
                return PythonCode(False)
        bound = set(_bound(nodes))
        self.variables = bound
        taken = EVERY_BUILTIN | self.functions | self.modules.keys()
        if not bound.isdisjoint(taken) or any(name.startswith("__") for name in bound):
            return PythonCode(False)
        if self.imports and any(isinstance(node, ast.Attribute) and node.attr in SEARCHED for node in nodes):
            return PythonCode(False)
        return PythonCode(self._is_harmless(tree), self.imports)

    def _import(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Note the names of an import; return whether it is harmless."""
        for one in node.names:
            path = one.name
            if isinstance(node, ast.ImportFrom):
                names = NAMES.get(node.module or "", frozenset())
                bound = one.asname or path
                if node.level or (path not in names and not any(name.startswith(f"{path}.") for name in names)):
                    return False
                if bound in EVERY_BUILTIN or bound in self.modules or bound in self.functions:
                    return False
                if path in names and not any(name.startswith(f"{path}.") for name in names):
                    self.functions.add(bound)
                else:
                    self.modules[bound] = f"{node.module}.{path}"
                continue
            parts = path.split(".")
            bound = one.asname or parts[0]
            if parts[0] in STARTING or any(part.startswith("__") for part in parts):
                return False
            if bound in EVERY_BUILTIN or bound in self.functions:
                return False
            known = self.modules.setdefault(bound, path if one.asname else parts[0])
            if known != (path if one.asname else parts[0]):
                return False
            self.imports = self.imports or not (path in NAMES or path in ("os.path", "urllib"))
        return True

    def _is_harmless(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, ast.Name):
            return node.id in BUILTINS or node.id in self.functions or node.id in self.variables
        if isinstance(node, ast.Attribute):
            return self._is_attribute(node)
        if isinstance(node, ast.Call):
            parts = [*node.args, *node.keywords]
            return self._is_function(node) and all(map(self._is_harmless, parts))
        if isinstance(node, ast.JoinedStr) and not self._is_plain_format(node):
            return False
        if isinstance(node, ast.Lambda):
            return self._is_harmless(node.body)
        if isinstance(node, PLAIN):
            return all(map(self._is_harmless, ast.iter_child_nodes(node)))
        return False

    def _is_plain_format(self, node: ast.JoinedStr) -> bool:
        """Return whether all versions of Python read an f-string alike: nothing in it is quoted as it is itself."""
        text = ast.get_source_segment(self.code, node) or ""
        return text[-1:] not in text[2:-1] and not ODD_IN_FORMAT.search(text)

    def _is_attribute(self, node: ast.Attribute) -> bool:
        """Return whether a dotted name is in the list of its module, or an attribute of a harmless value."""
        if not isinstance(node.ctx, ast.Load):
            return False
        path = _path(node)
        module = self.modules.get(path.partition(".")[0])
        if module is None:
            return node.attr in METHODS and self._is_harmless(node.value)
        whole = f"{module}.{path.partition('.')[2]}"
        if _is_listed(whole) or node.attr in OF_ANY_MODULE:
            return True
        # A method of a value, as in `sys.version.split`.
        return node.attr in METHODS and isinstance(node.value, ast.Attribute) and self._is_attribute(node.value)

    def _is_function(self, call: ast.Call) -> bool:
        function = call.func
        if isinstance(function, ast.Attribute):
            return self._is_attribute(function)
        if not isinstance(function, ast.Name):
            return False
        if function.id == "open":
            return _only_reads(call)
        listed = _is_listed(self.modules.get(function.id, ""))
        return listed or function.id in BUILTINS or function.id in self.functions


def _is_listed(path: str) -> bool:
    """Return whether a dotted name is one of a module's list."""
    parts = path.split(".")
    return any(".".join(parts[end:]) in NAMES.get(".".join(parts[:end]), ()) for end in range(1, len(parts)))


def _bound(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names that are variables."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _path(node: ast.Attribute) -> str:
    """Return a dotted name; empty if another expression begins it."""
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    return ".".join([value.id, *reversed(parts)]) if isinstance(value, ast.Name) else ""


def _only_reads(call: ast.Call) -> bool:
    """Return whether ``open`` opens a named file for reading."""
    words = [one.value if isinstance(one, ast.Constant) else None for one in call.args]
    if not words or not isinstance(words[0], str) or reads_input(words[0]):
        return False
    return words[1:] in ([], ["r"], ["rb"], ["rt"]) and all(one.arg in ("encoding", "newline") for one in call.keywords)
