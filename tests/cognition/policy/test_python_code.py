"""Code of ``python -c`` is harmless only in a closed world of names, attributes and syntax."""

from __future__ import annotations

import builtins

import pytest
from hypothesis import given, strategies as st

from cognition.policy._python_code import DEEPEST, LONGEST, PythonCode, read_python
from tests.cognition.naming import case_name

HARMLESS = (
    "print('hello')",
    "import sys; print(sys.version)",
    "import sys; print('\\n'.join(sys.path)); print(sys.version.split()[0])",
    "import json; print(json.load(open('package.json'))['version'])",
    "import json, sys; [print(one['a']) for one in json.load(sys.stdin)]",
    "import os.path as p; print(p.join('a', 'b'))",
    "import os\nfor key, value in os.environ.items(): print(key, value)",
    "from os import path; print(path.join('a'))",
    "from os import sep as s; print(s)",
    "from datetime import datetime; print(datetime.now().isoformat(), datetime(2020, 1, 1))",
    "from urllib.parse import quote; print(quote('a b'))",
    "import urllib.parse; print(urllib.parse.quote('a'))",
    "print(sorted([1, 2], key=lambda one: -one))",
    "with open('a', encoding='utf-8') as f: print(f.read())",
    "x = 1; print(f'{x} {x:>5}')",
    "try:\n    x = [1][0]\nexcept KeyError as e:\n    print(e)",
    "print(1e9, 2**10)",
    "print([(1)], {2: 3})",
    "print(open('a', 'r').read(), open('a', 'rb').read(), open('a', 'rt', newline='').read())",
    f"[{'(1), ' * 200}]",
    "(" * DEEPEST + "1" + ")" * DEEPEST,
    "1 #" + "a" * (LONGEST - 3),
    "import urllib",
    "import os.path",
)
IMPORTING = (
    "import numpy; print(numpy.__version__)",
    "import numpy as np; print(np.__version__)",
    "import a.b, c",
)
HARMFUL = (
    "import os; os.system('x')",
    "__import__('os').system('x')",
    "eval('1')",
    "x('curl')",
    "print(x)",
    "open('x', 'w')",
    "open('x', mode='w')",
    "open(0)",
    "open()",
    "open('/dev/stdin')",
    "x = open; x('a', 'w')",
    "map(open, ['a'])",
    "from os import system as print; print('x')",
    "from json import loads as print; print('x')",
    "from json import loads as open",
    "import os as print; print.system('x')",
    "import json as len",
    "import json as x; import os as x",
    "import json; from math import pi as json",
    "from math import pi; import os as pi",
    "from math import sqrt; sqrt = 1",
    "from math import pi, evil",
    "from os import getcwd, system",
    "x = 'a'; open(x)",
    "1 #" + "a" * (LONGEST - 2),
    "(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1),
    f"[{'(1), ' * 50}{'(' * DEEPEST}1{')' * DEEPEST}]",
    "import os; o = os; o.system('x')",
    "import os; (lambda o: o.system('x'))(os)",
    "import os; [o.system('x') for o in [1]]",
    "import sys; sys.modules['os'].system('x')",
    "import sys; sys.stdin.buffer",
    "import os; os.path.os.system('x')",
    "import os; os.getcwd = 1",
    "import os, sys; sys.path.append('x'); import foo",
    "import os; os.environ['PATH'] = 'x'; import foo",
    "import re; re.sub('a', eval, 'b')",
    "import wrap; wrap('x')",
    "import wrap; wrap.format('x')",
    "import antigravity",
    "import x.__main__",
    "from os import *",
    "from . import x",
    "from x import y",
    "for print in [eval]: print('1')",
    "f = lambda open: open('x', 'w')",
    "try:\n    pass\nexcept KeyError as eval:\n    pass",
    "__x = 1",
    "().__class__",
    "print(1)(2)",
    "class A: pass",
    "def f(): pass",
    "del x",
    "(x := 1)",
    "print(",
    "x\0",
    "print('é')",
    "# -*- coding: utf-7 -*-",
    "print('\\d')",
    "print(1if 1 else 2)",
    "x = 1; print(f\"{x['a']}\" f'b')",
    "x = {}; print(f'{x[\"a\"]}\\n')",
    "-" * 5 * DEEPEST + "1",
    "(" * DEEPEST + "(1)" + ")" * DEEPEST,
    "#" * (LONGEST + 1),
)


@pytest.mark.parametrize("code", HARMLESS, ids=case_name)
def test_code_that_prints_and_reads_is_harmless(code: str) -> None:
    assert read_python(code) == PythonCode(True)


@pytest.mark.parametrize("code", IMPORTING, ids=case_name)
def test_other_modules_are_noted(code: str) -> None:
    assert read_python(code) == PythonCode(True, imports=True)


@pytest.mark.parametrize("code", HARMFUL, ids=case_name)
def test_all_other_code_may_run_a_program(code: str) -> None:
    assert read_python(code).harmless is False


@pytest.mark.parametrize("name", sorted({*dir(builtins)} - {"__doc__", "__name__"}))
def test_no_builtin_becomes_a_variable(name: str) -> None:
    exceptions = isinstance(getattr(builtins, name), type) and issubclass(getattr(builtins, name), BaseException)

    if name not in ("None", "True", "False", "Ellipsis", "NotImplemented", "__debug__") and not exceptions:
        assert not read_python(f"for {name} in [1]: pass").harmless


@given(st.text("abe()[]{}.,:;='\" \n\\01", max_size=40))
def test_any_text_is_read(code: str) -> None:
    assert read_python(code) == read_python(code)
