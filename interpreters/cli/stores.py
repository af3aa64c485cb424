"""``--store URL``: sessions of a database, for every command that else takes files with recordings.

What is named on the command line becomes a place of the store before the command runs, which then does with it what it
does with a file. A URL is repeated without its password, as everywhere.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Any

from interpreters.cli.errors import CommandError

if TYPE_CHECKING:
    from interpreters.recording.recorder import Where
    from interpreters.recording.store import SqlStore

EXAMPLES = "sqlite:///sessions.db or postgresql://user@host/database"

IS_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def add_store_option(group: Any, what: str) -> None:
    """The option, for a command in which ``what`` is named."""
    group.add_argument("--store", metavar="URL", help=f"{what} in this database: {EXAMPLES}")


def in_store(options: argparse.Namespace) -> None:
    """Put sessions of the store in the place of what the options name; nothing where they name no store.

    Raises:
        CogstepError: it is no store, it has to be there and is not, or these are no names of sessions.
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
    """The store of a URL. Raises as ``SqlStore``."""
    from interpreters.recording.store import SqlStore

    return SqlStore(url)


def name_of(where: Where) -> str:
    """What messages call a recording: a file's path as it was named, or the session and its store."""
    return where if isinstance(where, str) else str(getattr(where, "name", where))


def typed(where: Where, options: argparse.Namespace) -> str:
    """How another command names a recording of this one: quoted for a shell."""
    store = getattr(options, "store", None)
    if store is None:
        return shlex.quote(name_of(where))
    return f"{shlex.quote(getattr(where, 'session', ''))} --store {shlex.quote(without_password(store))}"


def without_password(url: str) -> str:
    """A URL that names the same store, for whoever has the password elsewhere."""
    from sqlalchemy import URL, make_url

    found = make_url(url)
    query = {name: value for name, value in found.query.items() if name != "password"}
    return str(URL.create(found.drivername, found.username, None, found.host, found.port, found.database, query))
