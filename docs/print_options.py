"""Prints ``docs/reference/options.md`` from the declarations of the options. A test checks that the page is current.

    python docs/print_options.py > docs/reference/options.md

``interpreters/agents/options.py`` declares the options of sessions. Options of values are the fields of classes,
described by the texts below these fields.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attrs import NOTHING, Factory, fields  # noqa: E402 - as below

from cognition import GenerationOptions, Limits, Policy, RetryPolicy, Rule, ToolSpec  # noqa: E402 - after the path is set
from interpreters import Approval, HookAnswer, PlanAnswer, Redaction  # noqa: E402 - as above
from interpreters.agents.options import (  # noqa: E402 - as above
    AgentOptions,
    HandleOptions,
    Option,
    ProgramOptions,
    declared_options,
)
from runtime import Adapter, Isolation, LlamaOptions, Rope, load_model  # noqa: E402 - as above

HEAD = """# Options

This page lists every option of agents, sessions and models, with its type, default and meaning. You pass most of them
as keyword arguments, and the others as values such as `Limits`:

```python
from cogstep import Agent, Limits, fakes

with Agent(fakes.ScriptedModel(["Hello."]), system="Be brief.", limits=Limits(steps=4), context_tokens=2048) as agent:
    print(agent.run("Hello!").text)
#> Hello.
```

cogstep checks your options immediately. For an unknown name, an unknown word or a value of another type you get a
`ConfigError` that lists the valid ones. `help(Agent)` shows you the same texts.

`docs/print_options.py` prints this page from the declarations. If you change an option, print the page again:

    $ python docs/print_options.py > docs/reference/options.md
"""

SESSIONS = (
    (AgentOptions, "`Agent(model, tools, system, ...)`, `AsyncAgent`, and their `fork`"),
    (ProgramOptions, "`Agent.resume(path, model, tools, ...)`, and that of `AsyncAgent`"),
    (HandleOptions, "`AgentHost.open(key, tools, system, ...)`"),
)
VALUES: Mapping[type, str] = {
    GenerationOptions: "You pass it as `options=` of an agent, or in a `ModelRequest`.",
    Limits: "You pass it as `limits=` of an agent.",
    RetryPolicy: "You pass it as `retry=` of an agent.",
    Policy: "You pass it as `policy=` of an agent.",
    Rule: "You list them in `Policy(rules=...)`.",
    ToolSpec: "You get one for each function with `@tool`, or pass your own.",
    Approval: "Your `approve` returns it.",
    PlanAnswer: "Your `review` returns it.",
    HookAnswer: "Your hooks return it.",
    Redaction: "You pass it as `redact=` of an agent.",
    LlamaOptions: "You pass it as `options=` of `load_model`.",
    Rope: "You pass it as `rope=` of `LlamaOptions`.",
    Adapter: "You list them in `LlamaOptions(adapters=...)`.",
    Isolation: "You pass it as `isolate=` of `load_model`.",
}
"""Classes with options, and how to pass them."""
BAR = "\\|"
"""A bar that does not end a cell."""


def page() -> str:
    parts = [HEAD]
    above: dict[str, Option] = {}
    for kind, title in SESSIONS:
        options, hints = declared_options(kind), get_type_hints(kind)
        parts.append(f"## {title}\n\n{kind.__doc__}\n")
        if above:
            shared = ", ".join(f"`{name}`" for name in options if name in above)
            parts.append(f"You can also use these options from above: {shared}.\n")
        own = {name: one for name, one in options.items() if name not in above}
        rows = [(name, notation(hints[name]), shown(one.default), one.meaning) for name, one in own.items()]
        parts += [table(rows)] if rows else []
        above |= options
    parts += ["## `load_model(spec, ...)`\n", table(list(arguments_of(load_model)))]
    for value, use in VALUES.items():
        parts += [f"## `{value.__name__}`\n\n{summary_of(value)} {use}\n", table(list(fields_of(value)))]
    return "\n".join(parts)


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """Return a Markdown table of rows: name, type, default and meaning."""
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for name, kind, default, meaning in rows:
        assert meaning.strip(), f"{name} has no text that says what it means"
        lines.append(
            f"| `{name}` | {kind} | {default} | {' '.join(meaning.split()).replace('|', BAR)} |".replace("``", "`")
        )
    return "\n".join(lines) + "\n"


def notation(hint: Any) -> str:
    """Return a type as Python writes it, with the names of classes alone."""
    return as_code(_notation(hint))


def as_code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return f"`{text}`".replace("|", BAR)


def _notation(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _notation(arguments[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_notation, arguments))
    if origin is Literal:
        return " | ".join(f'"{word}"' for word in arguments)
    if origin in (Callable, type):
        return origin.__name__
    name = "None" if hint is type(None) else getattr(origin or hint, "__name__", str(hint))
    inner = ", ".join("..." if one is ... else _notation(one) for one in arguments)
    return f"{name}[{inner}]" if inner else name


def shown(default: Any) -> str:
    """Return a default as a program would write it."""
    if default is NOTHING or default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, Factory):  # type: ignore[arg-type]  # attrs gives a function's type for the class
        made = default.factory()
        return f"`{type(made).__name__}()`" if type(made).__module__ != "builtins" else f"`{made!r}`"
    if isinstance(default, type):
        return f"`{default.__name__}`"
    if isinstance(default, Mapping):
        return f"`{dict(default)!r}`"
    if isinstance(default, tuple) and default:
        return "the built-in ones"
    return f"`{default!r}`" if type(default).__module__ == "builtins" else f"`{type(default).__name__}()`"


def summary_of(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")


def fields_of(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Yield each field of an attrs class with the text below it."""
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
            yield one.alias, notation(hints[one.name]), shown(one.default), meanings.get(one.name, "")


def arguments_of(function: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield each argument of a function with its description in the docstring."""
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
        yield parameter.name, as_code(hint), shown(parameter.default), meanings[parameter.name]


if __name__ == "__main__":
    print(page(), end="")
