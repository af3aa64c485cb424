"""Settings of a model and of a session that the core does not know. They are sent to the host at the start."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from cognition import ConfigError
from interpreters.loop.program.program import WORKER_PATIENCE
from interpreters.recording.journal import Fsync
from interpreters.recording.redaction import SECRET_SHAPES, Redaction, SecretShape

TOOL_WAIT = 300.0
"""Default seconds a call waits for its result from the handle's side."""


@frozen
class ModelChoice:
    """A model that the host makes: by ``load_model(load)``, or by a factory function."""

    load: str | None = None
    """For ``runtime.load_model``; None for the small model included in cogstep."""
    factory: str = ""
    """``"package.module:function"``, called with ``arguments``; it returns a ``runtime.Runtime``."""
    arguments: dict[str, Any] = field(factory=dict)


@frozen
class Secrets:
    """The redaction of the recording as data: a ``Redaction`` without its function."""

    secrets: dict[str, str] = field(factory=dict, repr=False)
    patterns: dict[str, str] = field(factory=dict)
    shapes: tuple[SecretShape, ...] | None = None
    """None for the built-in ``redaction.SECRET_SHAPES``."""

    @classmethod
    def of(cls, redaction: Redaction) -> Secrets:
        """Return the redaction as data.

        Raises:
            ConfigError: it has a function, which can't be sent.
        """
        if redaction.find is not None:
            raise ConfigError("redact: find= is a function, and what crosses to a host is JSON; use patterns=")
        shapes = None if redaction.shapes == SECRET_SHAPES else redaction.shapes
        return cls(dict(redaction.secrets), dict(redaction.patterns), shapes)

    def redaction(self) -> Redaction:
        """Return the ``Redaction`` for an agent.

        Raises:
            ConfigError: a name or a pattern is not usable.
        """
        return Redaction(self.secrets, self.patterns, shapes=SECRET_SHAPES if self.shapes is None else self.shapes)


@frozen
class Settings:
    """The settings of a session that the core does not know; see ``HandleOptions``."""

    approvals: bool = False
    """Whether the handle's side is asked for approvals; without it they are refused."""
    external: tuple[str, ...] = ()
    """The names of the external tools, whose results may arrive after a restart."""
    worker_patience: float | None = WORKER_PATIENCE
    notes: str = ""
    """The file of the model's notes, on the host's side; ``":memory:"`` keeps them only during the session."""
    tool_wait: float | None = TOOL_WAIT
    """Seconds after which a call without a result has failed; None: never."""
    redact: Secrets | None = Secrets()
    """The redaction of the recording; None records everything unchanged."""
    window: int | None = None
    """Maximum number of unread events of a turn: the session then waits for ``read``. None: any number."""
    journal: str | None = None
    """The recording, a file on the host's side."""
    fsync: Fsync = "turn"

    def __attrs_post_init__(self) -> None:
        for name, seconds in (("worker_patience", self.worker_patience), ("tool_wait", self.tool_wait)):
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"{name} must be above 0 seconds, not {seconds:g}; None waits for ever")
        if self.window is not None and self.window < 1:
            raise ConfigError(f"window must be above 0, not {self.window}; None is for any number of unread events")
