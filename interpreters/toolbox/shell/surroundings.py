"""What a command runs in: its environment, which holds no keys, and the shell that reads it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from attrs import frozen

from cognition import ConfigError
from runtime.children import starting

SYSTEM = (*starting.SEARCHED, "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LOCALE_ARCHIVE",
          "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # fmt: skip
"""Variables of our other children (``runtime.children``) that a command gets too. Their proxies are not among them,
since a proxy's address often holds a password."""

LOCALE = "LC_"
"""How the names begin of those that come beside."""

TOOLCHAINS = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR")
"""Where the tools of a person's languages are."""

QUIET: Mapping[str, str] = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody looks at a screen, turns pages or answers."""

USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where the program itself has none."""

MARK = "COGSTEP_COMMAND"
"""The variable that all processes of a command inherit, by which they are found where their keeper was killed."""


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a command: those of the lists above that this program has, and what the program ``given``."""
    ours = starting.environment()
    kept = {name: value for name, value in ours.items() if name in SYSTEM or name.startswith(LOCALE)}
    for name in TOOLCHAINS:
        if os.path.isabs(os.environ.get(name, "")):
            kept[name] = os.environ[name]
    return {"PATH": USUAL_PATH, **kept, **QUIET, **(given or {})}


def check_environment(given: Mapping[str, str]) -> None:
    """See that the system can hand these over.

    Raises:
        ConfigError: it can't.
    """
    for name, value in given.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"environ: {name!r} can't be a variable: a name has no '=', and neither has a NUL")


@frozen
class ShellProgram:
    """What reads commands."""

    path: str
    options: tuple[str, ...]

    def words(self, command: str) -> tuple[str, ...]:
        """The words to start that run a command."""
        return (self.path, *self.options, "-c", "--", command)


def shell_program() -> ShellProgram | None:
    """Bash, else the system's ``sh``; None where there is neither. Neither reads any file of the user's first."""
    path = starting.environment().get("PATH", USUAL_PATH)
    for name, options in (("bash", ("--noprofile", "--norc")), ("sh", ())):
        found = shutil.which(name, path=path)
        if found is not None:
            return ShellProgram(found, options)
    return None
