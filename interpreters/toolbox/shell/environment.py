"""The environment of a command, without any keys, and its shell."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from cognition import ConfigError
from runtime.children import start as starting

SYSTEM = (*starting.SEARCHED, "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LOCALE_ARCHIVE",
          "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # fmt: skip
"""Variables of our other child processes (``runtime.children``) that a command also receives. Proxy variables are not
among them, since their addresses often contain a password.
"""

LOCALE = "LC_"
"""Prefix of further variables."""

TOOLCHAINS = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR")
"""Locations of the user's language toolchains."""

QUIET: Mapping[str, str] = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""For a terminal without a user: no pager, no prompts."""


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a command's variables: those listed above, as far as they are set, and ``given``."""
    ours = starting.environment()
    kept = {name: value for name, value in ours.items() if name in SYSTEM or name.startswith(LOCALE)}
    for name in TOOLCHAINS:
        if os.path.isabs(os.environ.get(name, "")):
            kept[name] = os.environ[name]
    return {"PATH": starting.USUAL_PATH, **kept, **QUIET, **(given or {})}


def check_environment(given: Mapping[str, str]) -> None:
    """Check that these are valid environment variables.

    Raises:
        ConfigError: a name or value is not valid.
    """
    for name, value in given.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"environ: {name!r} can't be a variable: a name has no '=', and neither has a NUL")


@frozen
class ShellProgram:
    """A shell and its options."""

    path: str
    options: tuple[str, ...]

    def words(self, command: str) -> tuple[str, ...]:
        return (self.path, *self.options, "-c", "--", command)


def shell_program(avoided: Sequence[Path] = ()) -> ShellProgram | None:
    """Return bash, or else the system's ``sh``; None if both are missing. Neither reads the user's startup files, and
    neither is taken from the avoided folders.
    """
    for name, options in (("bash", ("--noprofile", "--norc")), ("sh", ())):
        found = starting.find_program(name, avoided)
        if found is not None:
            return ShellProgram(found, options)
    return None
