"""What the core knows of a tool: its name, its schema and how carefully it has to be handled. Never how it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import inf
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.checking import checked
from cognition.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names that every chat template and provider accepts (OpenAI's rule, plus the dot of namespaced tools)."""

RETRY_PLAN: tuple[float, ...] = (2.0, 6.0, 18.0)
"""The waits of a tool that says no more than that it may be run again: seconds before each further attempt."""

ToolClass = Literal["read-only", "mutation", "execution", "network", "interaction"]
"""What the calls of a tool do: look, change files, run programs, reach other machines, talk to the user."""


def _check_name(_instance: ToolSpec, _attribute: Attribute[str], value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigError(f"tool name {value!r}: use 1 to 64 letters, digits, '_', '-' or '.'")


def _plain_schema(value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy by way of its JSON text, so that a specification equals the one that comes back from a recording."""
    try:
        schema = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"a tool's parameters have to be JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"a tool's parameters have to be a JSON Schema of an object, not {value!r}")
    return schema


@checked
@frozen
class ToolSpec:
    """One tool as the model sees it, with what policy and recovery need to know of it."""

    name: str = field(validator=_check_name)
    """The name by which the model calls it."""
    description: str = ""
    """For the model: what it does, and when to use it."""
    parameters: dict[str, Any] = field(factory=lambda: {"type": "object", "properties": {}}, converter=_plain_schema)
    """A JSON Schema of an object: a copy of what was given, as plain JSON data. Not to be changed."""
    read_only: bool = False
    """Whether it changes nothing. Read-only calls that stand side by side in a reply may run together."""
    idempotent: bool = False
    """Whether running it twice does no more than running it once. It may then be run again after a crash."""
    approval: bool | tuple[str, ...] = False
    """Whether the user is asked before each call, unless policy says otherwise. Or before which ones: arguments as in
    rules' patterns, such as ``("git push:*", "rm:*")`` of a tool of command lines, or ``("src/**",)`` of paths."""
    kind: ToolClass | None = None
    """What its calls do, for modes and the like. None: ``"read-only"`` for a tool that is, else ``"execution"``."""
    paths: tuple[str, ...] = ()
    """Its parameters that are paths, against which a rule's argument is held: ``Write(src/**)``. Empty: parameters with
    names such as ``path``. A value of several lines is read as a unified diff, whose heads name paths."""
    command: str = ""
    """Its parameter that is a command line of a shell: what it runs is read and judged, and asked about where that
    can't be read. Empty: none."""
    parallel: bool | None = None
    """Whether a call may run beside its neighbours in a reply, where these may too. None: where it is read-only."""
    timeout: float | None = None
    """Seconds after which a call counts as failed; None for no limit. Not of a call that is handed to the program,
    whose result comes when there is one."""
    retries: tuple[float, ...] = ()
    """A call that failed in a way that may pass (``ToolFailed.transient``) is run again: seconds to wait before each
    further attempt, such as ``RETRY_PLAN``. Empty: never. Only for tools that are read-only or idempotent."""
    output_limit: int | None = None
    """The most characters of a result that the model reads; what is longer is shown head and tail. None: what the
    session leaves room for, which holds in any case."""
    rereads: bool = False
    """Whether it reads the result of an earlier call of the session again, given that call's id as ``call``. Where a
    result is shown shortened, the model is told so."""

    @property
    def tool_class(self) -> ToolClass:
        """``kind``, or what stands for it."""
        return self.kind or ("read-only" if self.read_only else "execution")

    @property
    def runs_beside(self) -> bool:
        """``parallel``, or what stands for it."""
        return self.read_only if self.parallel is None else self.parallel

    @property
    def repeatable(self) -> bool:
        """Whether a call may be run a second time: it changes nothing, or no more than the first one."""
        return self.read_only or self.idempotent

    def __attrs_post_init__(self) -> None:
        if self.kind == "read-only" and not self.read_only:
            raise ConfigError(f"tool {self.name!r} has the kind 'read-only'; say read_only=True too")
        if self.kind in ("mutation", "execution") and self.read_only:
            raise ConfigError(f"tool {self.name!r} has the kind {self.kind!r} and so is not read_only; leave one out")
        if self.command and (self.paths or self.read_only):
            raise ConfigError(f"tool {self.name!r} takes command lines: leave out read_only and paths")
        if self.timeout is not None and not 0 < self.timeout < inf:  # written so that NaN is refused too
            raise ConfigError(f"tool {self.name!r}: timeout must be above 0 seconds, not {self.timeout!r}")
        if self.retries and not self.repeatable:
            raise ConfigError(
                f"tool {self.name!r} has retries, and running it twice may do more than once; say read_only=True or "
                "idempotent=True if that is so, or leave retries out"
            )
        if not all(0 <= seconds < inf for seconds in self.retries):
            raise ConfigError(f"tool {self.name!r}: retries are seconds from 0 on, not {self.retries!r}")
        if self.output_limit is not None and self.output_limit < 1:
            raise ConfigError(f"tool {self.name!r}: output_limit must be above 0 characters, not {self.output_limit!r}")
