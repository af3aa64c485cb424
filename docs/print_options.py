"""Prints ``docs/options.md`` from the declarations of the options; a test checks that the page is current.

    python docs/print_options.py > docs/options.md

Options of sessions stand in ``interpreters/agents/options.py``; those of values are the fields of classes, and their
meanings the texts below these fields.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attrs import NOTHING, Factory, fields  # noqa: E402 - as below

from cognition import GenerationOptions, Limits, Policy, RetryPolicy, Rule, ToolSpec  # noqa: E402 - after the path is set
from cognition.checking import described  # noqa: E402 - as above
from interpreters import Approval, HookAnswer, PlanAnswer, Redaction  # noqa: E402 - as above
from interpreters.agents.options import AgentOptions, HandleOptions, Option, ProgramOptions, declared  # noqa: E402 - as above
from runtime import Adapter, Isolation, LlamaOptions, Rope, load_model  # noqa: E402 - as above

HEAD = """# Options

Printed by `docs/print_options.py` from the declarations. Everything is checked where it comes in: a name that is not
here, a word that is none of those allowed and a value of another type are a `ConfigError` that says what is meant.
"""

SESSIONS = (
    (AgentOptions, "`Agent(model, tools, system, ...)`, `AsyncAgent`, and their `fork`"),
    (ProgramOptions, "`Agent.resume(path, model, tools, ...)`, and that of `AsyncAgent`"),
    (HandleOptions, "`AgentHost.open(key, tools, system, ...)`"),
)
VALUES = (GenerationOptions, Limits, RetryPolicy, Policy, Rule, ToolSpec, Approval, PlanAnswer, HookAnswer, Redaction)
LOADING = (LlamaOptions, Rope, Adapter, Isolation)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    above: dict[str, Option] = {}
    for kind, title in SESSIONS:
        options, hints = declared(kind), get_type_hints(kind)
        parts.append(f"## {title}\n\n{kind.__doc__}\n")
        if above:
            parts.append(f"As above: {', '.join(f'`{name}`' for name in options if name in above)}.\n")
        own = {name: one for name, one in options.items() if name not in above}
        rows = [(name, described(hints[name]), shown(one.default), one.meaning) for name, one in own.items()]
        parts += [table(rows)] if rows else []
        above |= options
    parts += ["## `load_model(spec, ...)`\n", table(list(arguments_of(load_model)))]
    for value in (*VALUES, *LOADING):
        parts += [f"## `{value.__name__}`\n\n{summary_of(value)}\n", table(list(fields_of(value)))]
    return "\n".join(parts)


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """Rows of name, type, default and meaning."""
    lines = ["| option | type | default | |", "|---|---|---|---|"]
    for name, kind, default, meaning in rows:
        assert meaning.strip(), f"{name} has no text that says what it means"
        lines.append(f"| `{name}` | {kind} | {default} | {' '.join(meaning.split())} |".replace("``", "`"))
    return "\n".join(lines) + "\n"


def shown(default: Any) -> str:
    """A default as a program would write it."""
    if default is NOTHING or default is inspect.Parameter.empty:
        return "needed"
    if isinstance(default, Factory):  # type: ignore[arg-type]  # attrs gives a function's type for the class
        made = default.factory()
        return f"`{type(made).__name__}()`" if type(made).__module__ != "builtins" else f"`{made!r}`"
    if isinstance(default, type):
        return f"`{default.__name__}`"
    if isinstance(default, Mapping):
        return f"`{dict(default)!r}`"
    if isinstance(default, tuple) and default:
        return "what it comes with"
    return f"`{default!r}`" if type(default).__module__ == "builtins" else f"`{type(default).__name__}()`"


def summary_of(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")


def fields_of(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Each field of an attrs class with the text below it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    meanings: dict[str, str] = {}
    for node, behind in zip(tree.body, tree.body[1:], strict=False):
        match node, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                meanings[name] = text
            case _:
                pass
    hints = get_type_hints(kind)
    for one in fields(kind):
        if one.init:
            yield one.alias, described(hints[one.name]), shown(one.default), meanings.get(one.name, "")


def arguments_of(function: Any) -> Iterator[tuple[str, str, str, str]]:
    """Each argument of a function with what its docstring says of it."""
    text = inspect.getdoc(function) or ""
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.startswith("    ") and not line.startswith("     "):
            name, _, line = line.strip().partition(": ")
        meanings[name] = f"{meanings.get(name, '')} {line.strip()}"
    for parameter in inspect.signature(function).parameters.values():
        hint = str(parameter.annotation)
        yield parameter.name, f"`{hint}`".replace("|", "\\|"), shown(parameter.default), meanings[parameter.name]


if __name__ == "__main__":
    print(page(), end="")
