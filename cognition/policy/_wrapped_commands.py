"""Find the command that ``docker exec``, ``kubectl exec``, ``ssh``, ``watch``, ``strace`` and others run.

Each is a closed world: with an option that is not in its list it is read as any other program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from cognition.policy._command import Words

NUMBER = r"\d+(?:\.\d+)?"
NAME = r"\w[\w@./:-]*"
PATH = r"[\w./~][\w@./:-]*"


class Wrapper(NamedTuple):
    """A program that runs the command behind its options and operands."""

    before: re.Pattern[str]
    """The words between program and command, each with a blank behind it."""
    joined: bool = False
    """Whether the command's words are joined by blanks, and a shell reads them."""
    lines: bool = False
    """Whether each word is a line for a shell."""
    elsewhere: bool = False
    """Whether the command runs on another machine, or in a container."""
    runs: bool = False
    """Whether allow rules need not name the command: they name the word by which the program runs others."""


def _before(options: str, *, first: str = "", last: str = "") -> re.Pattern[str]:
    return re.compile(rf"{first}(?:(?:{options}) )*+{last}(?=\S)", re.ASCII)


DOCKER = rf"-[idt]+|--(?:interactive|tty|detach)|(?:-[uw]|--user|--workdir)[ =]{PATH}"
COMPOSE = rf"(?:-[fp]|--(?:file|project-name|profile|env-file))[ =]{PATH}"
COMPOSE_EXEC = _before(
    rf"{DOCKER}|-T|--no-TTY|--index[ =]\d+", first=rf"(?:compose )?(?:{COMPOSE} )*+exec ", last=rf"{NAME} "
)
IMAGE = (
    r"(?:alpine|amazoncorretto|busybox|debian|eclipse-temurin|elixir|fedora|gcc|golang|gradle|maven|node|openjdk|perl|php"
    r"|python|ruby|rust|swift|ubuntu)(?::[\w.-]+)?"
)
"""Images that run the command behind their name."""
DOCKER_RUN = _before(
    r"-[idt]+|--(?:rm|interactive|tty|init)"
    rf"|(?:-[uwpv]|--(?:user|workdir|publish|volume|name|network|platform))[ =]{PATH}",
    first="run ",
    last=rf"{IMAGE} (?!-)",
)
PLACE = rf"(?:-[nc]|--(?:namespace|container|context))[ =]?{NAME}"
SSH_SETTING = (
    r"(?:BatchMode|CheckHostIP|Compression|ConnectTimeout|ConnectionAttempts|IdentitiesOnly|LogLevel"
    r"|PasswordAuthentication|ServerAliveInterval|ServerAliveCountMax|StrictHostKeyChecking|UserKnownHostsFile)"
    r"=[\w./-]+"
)
EXPORT = rf"--export-(?:json|markdown|csv)[ =]{PATH}"

WRAPPERS: Mapping[str, tuple[Wrapper, ...]] = {
    **dict.fromkeys(
        ("docker", "nerdctl", "podman"),
        (
            Wrapper(_before(DOCKER, first="(?:container )?exec ", last=rf"{NAME} "), elsewhere=True, runs=True),
            Wrapper(COMPOSE_EXEC, elsewhere=True, runs=True),
            Wrapper(DOCKER_RUN, elsewhere=True, runs=True),
        ),
    ),
    "docker-compose": (Wrapper(COMPOSE_EXEC, elsewhere=True, runs=True),),
    **dict.fromkeys(
        ("kubectl", "oc"),
        (
            Wrapper(
                _before(
                    rf"-[it]+|--(?:stdin|tty|quiet)|{PLACE}",
                    first=rf"(?:{PLACE} )*+exec ",
                    last=rf"{NAME} (?:{PLACE} )*+-- ",
                ),
                elsewhere=True,
                runs=True,
            ),
        ),
    ),
    "ssh": (
        Wrapper(
            _before(
                rf"-[46AaCnqTtvx]+|-[lp] ?\w[\w.-]*|-i ?{PATH}|-o ?{SSH_SETTING}",
                last=r"\w[\w.-]*(?:@\w[\w.-]*)? (?!-)",  # behind the host there may be further options
            ),
            joined=True,
            elsewhere=True,
        ),
    ),
    "watch": (
        Wrapper(
            _before(
                rf"-[dtcbeg]+|--(?:differences|no-title|color|beep|errexit|chgexit)|(?:-n|--interval)[ =]?{NUMBER}"
            ),
            joined=True,
        ),
    ),
    "strace": (
        Wrapper(
            _before(
                rf"-[fcCqrtTvyiknwxz]+|-e ?(?:trace=|signal=)?[\w,%]+|-[sSpUX] ?[\w,]+|-o ?{PATH}"
                r"|--(?:follow-forks|summary-only|summary)"
            )
        ),
    ),
    "ltrace": (Wrapper(_before(rf"-[fcCrTtiS]+|-e ?[\w,+@%.]+|-[sp] ?\d+|-o ?{PATH}")),),
    "valgrind": (
        Wrapper(
            _before(
                r"-[qvs]|--(?:tool|leak-check|show-leak-kinds|track-origins|error-exitcode|num-callers|show-reachable)"
                r"=\w+"
            )
        ),
    ),
    "hyperfine": (
        Wrapper(
            _before(rf"-[iN]|--ignore-failure|(?:-[wrmM]|--(?:warmup|runs|min-runs|max-runs))[ =]?\d+|{EXPORT}"),
            lines=True,
        ),
    ),
}
"""Programs that run others, each with its forms."""
BLANK = re.compile(r"\s")


def wrapped_command(program: str, words: Words) -> tuple[Wrapper, Words] | None:
    """Return how a program runs a command, and the command's words; None if that is uncertain."""
    before: list[str] = []
    for word in words[1:]:
        if not word or BLANK.search(word):
            break  # the command begins there, or before it
        before.append(word)
    text = " ".join([*before, "x" if len(words) > 1 + len(before) else ""])
    for form in WRAPPERS[program]:
        if (found := form.before.match(text)) is not None:
            inner = words[1 + found.group().count(" ") :]
            options = inner if form.lines else inner[:1]  # an unknown option, or a word that may be one
            return None if any(word is not None and word[:1] == "-" for word in options) else (form, inner)
    return None
