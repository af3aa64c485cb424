"""``--store URL``: sessions in a database, for every command that otherwise takes recording files.

Before the command runs, names on the command line are replaced by places in the store. The command treats these like
files. A URL is never shown with its password.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import CommandError

if TYPE_CHECKING:
    from interpreters.recording.recorder import Where
    from interpreters.recording.store import SqlStore

EXAMPLES = "sqlite:///sessions.db or postgresql://user@host/database"

IS_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def add_store_option(group: Any, what: str) -> None:
    """Add the option. ``what`` describes the named sessions in the help."""
    group.add_argument("--store", metavar="URL", help=f"{what} in this database: {EXAMPLES}")


def add_recording(command: Any, text: str = "a recording made with --record") -> None:
    """Add the recording of a command as an argument, and the option for its store."""
    command.add_argument("file", metavar="FILE", help=text)
    add_store_option(command, "FILE is the name of a session")


def resolve_in_store(options: argparse.Namespace) -> None:
    """Replace the names in the options by sessions of the store. Does nothing without ``--store``.

    Raises:
        CogstepError: the store is invalid or missing, or a name is not a valid session name.
    """
    if getattr(options, "store", None) is None:
        return
    store = store_at(options.store)
    if "file" in options or "places" in options:
        store.check_there()
    if options.command == "sessions" and "places" in options:
        options.places = [store.recording(name) for name in options.places] or [store]
        return
    for name in ("file", "record"):
        if getattr(options, name, None) is not None:
            setattr(options, name, store.recorder(getattr(options, name)))
    if "record" in options and options.record is None and "file" not in options:
        raise CommandError("--store says in which database a session is recorded; name the session with --record NAME")


def store_at(url: str) -> SqlStore:
    """Return the store at a URL. Raises as ``SqlStore``."""
    from interpreters.recording.store import SqlStore

    return SqlStore(url)


def name_of(where: Where) -> str:
    """Return a recording's name for messages: the path as given, or the session and its store."""
    return where if isinstance(where, str) else str(getattr(where, "name", where))


def quote_for_command(where: Where, options: argparse.Namespace) -> str:
    """Return a recording's name for another command, quoted for a shell."""
    store = getattr(options, "store", None)
    if store is None:
        return shlex.quote(name_of(where))
    return f"{shlex.quote(getattr(where, 'session', ''))} --store {shlex.quote(without_password(store))}"


def without_password(url: str) -> str:
    """Return the URL without its password. It still names the same store if the password is supplied elsewhere."""
    from sqlalchemy import make_url

    return str(make_url(url)._replace(password=None).difference_update_query(["password"]))
