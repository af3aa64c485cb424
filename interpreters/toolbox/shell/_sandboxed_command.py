"""How one command is confined under policy's rules, what its sandbox doesn't enforce, and what it has refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence

from cognition import AccessRules, Rule
from cognition.base.display import shown_name
from interpreters.toolbox.shell._denied_paths import Denials
from interpreters.toolbox.shell.sandbox import Sandbox
from interpreters.tools.tool import ToolError

LOG = logging.getLogger("cogstep")

NO_NETWORK = re.compile(
    r"network is unreachable|could ?n.t resolve|could not resolve|name resolution|name or service not known"
    r"|EAI_AGAIN|ENETUNREACH|no address associated with hostname|getaddrinfo|unable to resolve host",
    re.IGNORECASE,
)
"""What programs print when they find no network."""
NOT_PERMITTED = re.compile(r"permission denied|operation not permitted|no such file|EACCES|EPERM|ENOENT", re.IGNORECASE)

NAME = re.compile(r"[^\s/:'\"`()\[\],;]+")
"""A name in an error message, between separators of paths and quotes."""

NAMED = 5
"""Rules that a note names."""


class SandboxedCommand:
    """One command in the sandbox of its shell; or unconfined, if the shell has none.

    Args:
        sandbox: of the shell.
        access: policy's rules for the command.
        denials: the profile of its sandbox; None if it is not confined.
    """

    def __init__(self, sandbox: Sandbox, access: AccessRules, denials: Denials | None) -> None:
        self._sandbox, self._access, self._denials = sandbox, access, denials

    def words(self) -> tuple[str, ...]:
        """Return the words before the command that confine it.

        Raises:
            ToolError: the sandbox is required, and does not enforce a rule of policy.
        """
        if self._denials is None:
            return ()
        unheld = self._not_enforced()
        if unheld and self._sandbox.required:
            raise ToolError(
                f"this command was not run: a sandbox is required, and {self._sandbox.wall} can't enforce "
                f"{_listed(unheld)} here"
            )
        return self._sandbox.words(self._denials.profile)

    def _not_enforced(self) -> list[str]:
        """Return the rules and paths that the sandbox should enforce and can't."""
        if self._denials is None:
            return []
        paths = self._sandbox.not_held(self._denials.profile)
        return [rule.tool for rule in self._denials.unheld] + [shown_name(str(path)) for path in paths]

    def describe(self) -> str:
        """Return for the approving user what confines the command, and which rules hold in it."""
        if self._denials is None:
            return "not confined"
        network = "with the network" if self._denials.profile.network else "without network"
        access, unheld = self._access, self._not_enforced()
        absent = [rule.tool for rule in self._denials.absent]
        rules = [rule.tool for rule in (*access.paths, *access.writes, *access.programs)]
        enforced = [rule for rule in dict.fromkeys(rules) if rule not in unheld and rule not in absent]
        parts = [f"confined to that directory by {self._sandbox.wall}, {network}"]
        parts += [f"it enforces {_listed(enforced)}"] if enforced else []
        parts += [f"it can't enforce {_listed(unheld)}"] if unheld else []
        parts += [f"nothing is there yet for {_listed(absent)}, and what is made is not protected"] if absent else []
        if partly := self._denials.partly:
            parts.append(f"it was too much to look everywhere for the program of {_names(partly)}")
        if closed := self._sandbox.closed(self._denials.profile):
            parts.append(f"it can make no new files in {_listed([str(path) for path in closed])}")
        parts += [f"only compared with the command line: {_names(access.arguments)}"] if access.arguments else []
        return "; ".join(parts)

    def refused(self, output: str) -> str:
        """Return a note on what the sandbox seems to have refused, judged by the output; empty if nothing. Logs it."""
        if self._denials is None:
            return ""
        found = list(dict.fromkeys(self._find_refused(output)))
        if not found:
            return ""
        LOG.warning("the sandbox (%s) refused a command: %s", self._sandbox.wall, "; ".join(found))
        return "; ".join(found)

    def _find_refused(self, output: str) -> Iterator[str]:
        denials = self._denials
        if denials is None:
            return
        profile = denials.profile
        if not profile.network and NO_NETWORK.search(output):
            yield "the sandbox has no network; call again with network=true to ask the user for it"
        names = {path.name for path in (*profile.programs, *profile.hidden, *profile.read_only)}
        for line in output.splitlines() if names else ():
            if NOT_PERMITTED.search(line):
                for name in sorted(names.intersection(NAME.findall(line))):
                    yield f"policy denies {shown_name(name)}, and the sandbox protects it"


def _names(rules: Iterable[Rule]) -> str:
    return _listed([rule.tool for rule in rules])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(shown_name, names[:NAMED])) + more
