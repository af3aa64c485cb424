"""The core's knowledge of a tool: its name, its schema and its risks. Never how it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import inf
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition.base.checking import checked
from cognition.base.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names that every chat template and provider accepts (OpenAI's rule, plus the dot of namespaced tools)."""

RETRY_PLAN: tuple[float, ...] = (2.0, 6.0, 18.0)
"""Default waits of a tool that may be run again: seconds before each further attempt."""

ToolClass = Literal["read-only", "mutation", "execution", "network", "interaction"]
"""The effect of a tool's calls: read, change files, run programs, use the network, interact with the user."""


def _check_name(_instance: ToolSpec, _attribute: Attribute[str], value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigError(f"tool name {value!r}: use 1 to 64 letters, digits, '_', '-' or '.'")


def _plain_schema(value: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the schema through its JSON text, so that a specification equals its copy read from a recording."""
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
    """The definition of a tool for the model, with facts for policy and recovery."""

    name: str = field(validator=_check_name)
    """Its name for the model."""
    description: str = ""
    """For the model: its function, and when to use it."""
    parameters: dict[str, Any] = field(factory=lambda: {"type": "object", "properties": {}}, converter=_plain_schema)
    """A JSON Schema of an object, copied as plain JSON data. Do not change it."""
    read_only: bool = False
    """Whether it changes nothing. Adjacent read-only calls in a reply may run in parallel."""
    idempotent: bool = False
    """Whether running it twice has the same effect as running it once. It may then be run again after a crash."""
    approval: bool | tuple[str, ...] = False
    """Whether to ask the user before each call, unless policy decides otherwise. A tuple limits this to some calls, by
    arguments as in rules' patterns: ``("git push:*", "rm:*")`` for command lines, or ``("src/**",)`` for paths.
    """
    kind: ToolClass | None = None
    """The effect of its calls, for modes and rules. None: ``"read-only"`` if ``read_only``, else ``"execution"``."""
    paths: tuple[str, ...] = ()
    """Its parameters that are paths, to compare with a rule's argument: ``Write(src/**)``. Empty: parameters with names
    such as ``path``. A value of several lines is read as a unified diff, with paths in its headers.
    """
    command: str = ""
    """Its parameter that is a shell command line. Policy judges the programs in it, and asks if it can't parse the
    line. Empty: no such parameter.
    """
    parallel: bool | None = None
    """Whether a call may run in parallel with adjacent calls of the reply that allow it too. None: as ``read_only``."""
    timeout: float | None = None
    """Seconds after which a call counts as failed; None for no limit. It does not apply to a call handed to the
    program, which may take any time.
    """
    retries: tuple[float, ...] = ()
    """Seconds to wait before each further attempt at a call whose failure may pass (``ToolFailed.transient``), such as
    ``RETRY_PLAN``. Empty: no further attempt. Only for tools that are read-only or idempotent.
    """
    output_limit: int | None = None
    """The most characters of a result for the model; a longer result is cut to its head and tail. None: only the
    session's own limit, which always applies.
    """
    rereads: bool = False
    """Whether it returns the result of an earlier call of the session, given that call's id as ``call``. Notes in
    shortened results then point the model to it.
    """
    asks_with: tuple[str, ...] = ()
    """Its boolean parameters that need the user's approval each time: no rule, earlier answer or mode replaces it for a
    call that sets one of them.
    """

    polls: bool = False
    """Whether it waits for something or looks whether it has happened, so that the model may call it again and again
    with the same result. Its calls do not count for ``Limits.repeats``, and end a row of equal calls.
    """

    @property
    def tool_class(self) -> ToolClass:
        """``kind``, or its default."""
        return self.kind or ("read-only" if self.read_only else "execution")

    @property
    def runs_beside(self) -> bool:
        """``parallel``, or its default."""
        return self.read_only if self.parallel is None else self.parallel

    @property
    def repeatable(self) -> bool:
        """Whether a call may be run a second time: it is read-only or idempotent."""
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
