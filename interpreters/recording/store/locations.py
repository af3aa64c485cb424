"""The database that a URL names, and its name for people, always without the password."""

from __future__ import annotations

import importlib.util
import os
import re
from typing import Literal
from urllib.parse import unquote

from attrs import field, frozen
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from interpreters.recording.store._errors import StoreError
from runtime.models.installation import install_line

Kind = Literal["sqlite", "postgresql"]

EXAMPLES = "sqlite:///sessions.db or postgresql://user@host/database"

DRIVERS: dict[str, tuple[Kind, str, str]] = {
    "sqlite": ("sqlite", "sqlite+pysqlite", "sqlite3"),
    "postgresql": ("postgresql", "postgresql+psycopg", "psycopg"),
    "postgres": ("postgresql", "postgresql+psycopg", "psycopg"),
    "postgresql+psycopg": ("postgresql", "postgresql+psycopg", "psycopg"),
}
"""By URL scheme: the kind, SQLAlchemy's driver name, and the driver's module."""

OURS = ("autocommit", "client_encoding", "conninfo", "context", "cursor_factory", "prepare_threshold", "row_factory")
"""Options of the driver itself, which a URL may not set."""


@frozen
class Location:
    """A database."""

    kind: Kind
    shown: str
    """Name for errors and reports: the path of the file, or ``user@host:port/database``."""
    url: URL = field(repr=False)  # it holds the password
    path: str = ""
    """Absolute path of SQLite's file."""
    secret: str = field(default="", repr=False)
    """The password, to be removed from a driver's messages."""

    def hide_password(self, text: str) -> str:
        """Return a driver's message without the password."""
        return text.replace(self.secret, "***") if self.secret else text


def locate(text: str) -> Location:
    """Return the database of a URL.

    Args:
        text: ``sqlite:///`` and a path, or ``postgresql://user:password@host:port/database``. libpq supplies the
            missing parts of a PostgreSQL URL: PGUSER, PGPASSWORD, ``~/.pgpass``, a service.

    Raises:
        StoreError: the URL is invalid, or its driver is not installed. The message repeats only its scheme.
    """
    scheme = text.partition(":")[0] if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) else ""
    if scheme not in DRIVERS:
        what = f"a store can't be at {scheme}:" if scheme else "this is no URL"
        raise StoreError(f"{what}; expected one such as {EXAMPLES}", store="store")
    kind, driver, module = DRIVERS[scheme]
    if importlib.util.find_spec(module) is None:
        raise StoreError(f"the driver {module} is not installed; {install_line('sql')}", store=scheme)
    try:
        os.fsencode(text)
        url = make_url(text).set(drivername=driver)
    except (ArgumentError, ValueError):  # whose message may repeat the password
        raise StoreError(f"the URL can't be read; expected one such as {EXAMPLES}", store=scheme) from None
    if "\0" in f"{text}{url.database}{url.host}{url.username}{url.password}":
        raise StoreError("a NUL byte is in the URL, which no database's name has; leave it out", store=scheme)
    if kind == "sqlite":
        return _file(url, text)
    if text.count("@") > 1:  # what stands between them would be taken for the host, and shown
        raise StoreError("the URL has several @; write those of a user or a password as %40", store=scheme)
    if own := [name for name in OURS if name in url.query]:
        raise StoreError(f"the option {own[0]} is not for a URL to say; leave it out", store=scheme)
    port = f":{url.port}" if url.port else ""
    if url.host and url.host.lower().startswith("%2f"):  # the directory of a socket, as libpq has it in URLs
        # An option, because SQLAlchemy accepts no directory as a host.
        options = {"host": unquote(url.host)} | ({"port": str(url.port)} if url.port else {})
        url = URL.create(
            url.drivername, url.username, url.password, database=url.database, query={**url.query, **options}
        )
    hosts = url.query.get("host", ())
    host = url.host or (hosts if isinstance(hosts, str) else ",".join(hosts)) or "localhost"
    user = f"{url.username}@" if url.username else ""
    secret = url.password or str(url.query.get("password", ""))
    return Location("postgresql", f"{user}{host}{port}/{url.database or ''}".rstrip("/"), url, secret=secret)


def _file(url: URL, text: str) -> Location:
    if url.host or not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StoreError(
            "SQLite's URL needs the path of a file: sqlite:///sessions.db, or a whole path, sqlite:////srv/sessions.db",
            store="sqlite",
        )
    if url.query or "?" in text:  # also where nothing that could be read stands behind it
        raise StoreError(
            "nothing may stand behind the path of SQLite's file; leave out what begins with `?`", store="sqlite"
        )
    path = os.path.abspath(url.database)  # wherever the program stands later
    return Location("sqlite", url.database, url.set(database=path), path)
