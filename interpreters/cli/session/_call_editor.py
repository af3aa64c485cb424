"""Edit the arguments of a call, in the user's editor or on one line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cognition.base.display import shown_name
from cognition.base.strict_json import DECODER
from cognition.values.messages import ToolCall, find_unusable, json_object_text
from interpreters.cli._errors import Terminated, reason_of
from interpreters.cli.screen.line_input import LONGEST_INPUT
from interpreters.cli.screen.terminal import err, json_text, out
from interpreters.cli.session._prompt import Prompt
from interpreters.cli.session.interrupts import Interrupts
from runtime.files import PRIVATE_FILE

ON_A_LINE = "arguments as JSON (Enter: as they are): "
AGAIN = "Enter edits it again, any letter leaves the arguments as they are: "


class EditError(Exception):
    """The edited text is not a set of arguments, or it could not be edited. The message has the reason."""


def _edit(editor: tuple[str, ...], text: str, interrupts: Interrupts) -> str:
    """Return a text after the user has edited it.

    Raises:
        EditError: the editor can't be run, or failed.
        Terminated: SIGTERM arrived during the edit.
    """
    with tempfile.TemporaryDirectory(prefix="cogstep-edit-") as folder:  # what editors write beside goes with it
        path = Path(folder) / "arguments.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        _run(editor, path, interrupts)
        try:
            with open(path, encoding="utf-8") as file:
                made = file.read(LONGEST_INPUT + 1)
        except UnicodeDecodeError as error:
            raise EditError("the file is no text in UTF-8 any more") from error
        except OSError as error:
            raise EditError(f"the edited file can't be read ({reason_of(error)})") from error
    if len(made) > LONGEST_INPUT:
        raise EditError(f"the file has more than {LONGEST_INPUT:,} characters")
    return made


def _run(editor: tuple[str, ...], path: Path, interrupts: Interrupts) -> None:
    screen = out() if out().is_terminal else err()  # an editor draws on a terminal, wherever the answer goes
    try:
        with interrupts.give_to_program():
            process = subprocess.Popen([*editor, str(path)], stdout=screen.fileno())
            try:
                code = process.wait()
            except Terminated:
                process.terminate()
                process.wait()
                raise
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise EditError(f"the editor {editor[0]} can't be run ({reason}); set VISUAL or EDITOR") from error
    if code:
        raise EditError(f"the editor ended with {code}")


def find_editor() -> tuple[str, ...]:
    """Return the command line of the user's editor: VISUAL, or else EDITOR; empty if both are unset."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(name, ""))
        except ValueError:  # an open quote
            words = os.environ[name].split()
        if words:
            return tuple(words)
    return ()


def edit_arguments(arguments: Mapping[str, Any], person: Prompt) -> dict[str, Any] | None:
    """Let the user edit the arguments, in the editor or else on a line. Returns None to leave them unchanged.

    Raises:
        EOFError, KeyboardInterrupt, Terminated: as in ``Prompt.line``.
    """
    editor, text = find_editor(), f"{json_text(arguments, indent=2)}\n"
    if not editor:
        person.tell(json_text(arguments), "plain")
    while True:
        try:
            text = _edit(editor, text, person.interrupts) if editor else person.line(ON_A_LINE)
            return find_changes(arguments, read_arguments(text)) if text or editor else None
        except EditError as error:
            person.tell(f"! {error}", "warning")
        if editor and person.line(AGAIN):
            return None


def find_changes(before: Mapping[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
    """Return the edited arguments, or None if they are unchanged."""
    return None if json_object_text(after) == json_object_text(before) else after


def read_arguments(text: str) -> dict[str, Any]:
    """Parse arguments.

    Raises:
        EditError: the text is not valid; the message has the place.
    """
    try:
        found = DECODER.decode(text.strip())
    except json.JSONDecodeError as error:
        line, column = text[: len(text) - len(text.lstrip())].count("\n") + error.lineno, error.colno
        raise EditError(f"this is no JSON: line {line}, column {column}: {error.msg}") from error
    except RecursionError as error:
        raise EditError("this can't be read: it is nested too deeply") from error
    except ValueError as error:
        raise EditError(f"this is no JSON: {shown_name(str(error))}") from error
    if not isinstance(found, dict):
        raise EditError('arguments are a JSON object, such as {"path": "a.txt"}')
    try:
        problem = find_unusable(ToolCall("", "", found))
    except (ValueError, TypeError, RecursionError) as error:
        raise EditError(f"these can't be the arguments of a call: {shown_name(str(error))}") from error
    if problem:
        raise EditError(f"these can't be the arguments of a call: {shown_name(problem)}")
    return found
