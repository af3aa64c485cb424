"""Load objects from the user's Python modules: ``MODULE:NAME``.

Only the user's command line may name a module, since importing it runs its code. Recordings and files never do. MODULE
is looked up in the working directory first, as with ``python -m``. The directory is then appended to ``sys.path`` for
the module's own imports. It is appended at the end, so that its files can't shadow our libraries or Python's.

Any error during an import becomes one sentence with its place.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from traceback import walk_tb
from types import ModuleType
from typing import Any, TextIO, cast

from interpreters.cli._errors import CommandError, Terminated
from interpreters.cli.screen.terminal import err

FORM = "write it as MODULE:NAME, such as my_tools:TOOLS for TOOLS in my_tools.py"


def load_named(option: str, name: str) -> Any:
    """Return the object at ``MODULE:NAME``; both may have dots.

    Raises:
        CommandError: the name is malformed, the module can't be imported, or it has no such name.
    """
    module, _, attribute = name.partition(":")
    parts = attribute.split(".")
    if module.endswith(".py") or "/" in module or os.sep in module:
        raise CommandError(f"{option} {name!r} names a file, and what is imported is a module; {FORM}")
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise CommandError(f"{option} {name!r} is no name in a module; {FORM}")
    with _explain_errors(option, name, f"importing {module}", module):
        found: Any = _import(module)
    place = getattr(found, "__file__", None) or module
    for part in parts:
        with _explain_errors(option, name, f"reading {attribute} of {module}"):
            try:
                found = getattr(found, part)
            except AttributeError as error:
                near = get_close_matches(part, dir(found), n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise CommandError(f"{option} {name}: there is no {part!r} in {place}{hint}") from error
    return found


def load_approver(name: str) -> Any:
    """Return the function that ``--approve MODULE:NAME`` names."""
    found = load_named("--approve", name)
    if not callable(found) or isinstance(found, type):
        raise CommandError(f"--approve {name} is no function of a request; it has to return True or False")
    return found


def call_user_function(
    option: str, name: str, function: Callable[..., Any], *arguments: Any, what: str = "calling it"
) -> Any:
    """Call a function of the user. Its errors are reported like those of an import."""
    with _explain_errors(option, name, what):
        return function(*arguments)


def redirect_output() -> contextlib.AbstractContextManager[TextIO]:
    """Redirect the output of the user's own code to stderr, since stdout is for the model's text."""
    return contextlib.redirect_stdout(cast("TextIO", err()))


@contextlib.contextmanager
def _explain_errors(option: str, name: str, what: str, module: str = "") -> Iterator[None]:
    """Turn any exception into one sentence, except those that ask the command to end."""
    here = _import_working_directory()
    try:
        with redirect_output():
            yield
        if _import_working_directory() != here:
            os.chdir(here)
            raise CommandError(f"{option} {name}: {what} changed the working directory, where files are looked for")
    except (KeyboardInterrupt, Terminated, CommandError):
        raise
    except SystemExit as error:
        raise CommandError(
            f"{option} {name}: {what} ended the program{error_location(error)}; what it does when it is run has to "
            'stand behind: if __name__ == "__main__":'
        ) from error
    except BaseException as error:  # whatever the user's code raises
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            reason = f"there is no module {error.name!r} in {_import_working_directory()}, and none is installed"
            raise CommandError(f"{option} {name}: {reason}; {FORM}") from error
        raise CommandError(f"{option} {name}: {what} failed: {_message(error)}{error_location(error)}") from error


def _import(module: str) -> ModuleType:
    here = _import_working_directory()
    top = module.partition(".")[0]
    if here not in sys.path:
        sys.path.append(here)
    if top not in sys.modules and top not in sys.stdlib_module_names:
        spec = PathFinder.find_spec(top, [here])
        if spec is not None and spec.loader is not None and spec.has_location:
            sys.modules[top] = loaded = module_from_spec(spec)
            try:
                spec.loader.exec_module(loaded)
            except BaseException:
                sys.modules.pop(top, None)
                raise
    return import_module(module)


def _import_working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise CommandError("the working directory is gone; go to one that exists") from error


def _message(error: BaseException) -> str:
    """Return an error's type and message. Its ``__str__`` may itself fail."""
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def error_location(error: BaseException) -> str:
    """Return the innermost line of the user's own code in the traceback."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return ""  # its own text says the file and the line
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        name = os.path.relpath(frame.f_code.co_filename)
        if not name.startswith(("..", "<")) and "site-packages" not in name:
            return f" ({name}, line {line})"
    return ""
