"""What is said of a model and of a session when it begins, beside what the core knows of it. It crosses to the host."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from cognition import ConfigError
from interpreters.program.program import WORKER_PATIENCE
from interpreters.recording.journal import Fsync
from interpreters.recording.redaction import SHAPES, Redaction, Shape

TOOL_WAIT = 300.0
"""Seconds that a call waits for its result from the handle's side, unless it is said otherwise."""


@frozen
class ModelChoice:
    """A model that the host makes itself: ``load_model(load)``, or what a function of its own gives."""

    load: str | None = None
    """For ``runtime.load_model``; None for the small model that ships with cogstep."""
    factory: str = ""
    """``"package.module:function"``, called with ``arguments``; it gives a ``runtime.Runtime``."""
    arguments: dict[str, Any] = field(factory=dict)


@frozen
class Secrets:
    """What is kept out of the recording, as data: a ``Redaction`` without its function."""

    secrets: dict[str, str] = field(factory=dict, repr=False)
    patterns: dict[str, str] = field(factory=dict)
    shapes: tuple[Shape, ...] | None = None
    """None for those that every version knows of itself, ``redaction.SHAPES``."""

    @classmethod
    def of(cls, redaction: Redaction) -> Secrets:
        """As data.

        Raises:
            ConfigError: it has a function, which can't cross.
        """
        if redaction.find is not None:
            raise ConfigError("redact: find= is a function, and what crosses to a host is JSON; use patterns=")
        shapes = None if redaction.shapes == SHAPES else redaction.shapes
        return cls(dict(redaction.secrets), dict(redaction.patterns), shapes)

    def redaction(self) -> Redaction:
        """As an agent takes it; raises ConfigError for a name or a pattern that can't be used."""
        return Redaction(self.secrets, self.patterns, shapes=SHAPES if self.shapes is None else self.shapes)


@frozen
class Settings:
    """What a session is made of, beside what the core knows of it; see ``HandleOptions``."""

    approvals: bool = False
    """Whether the handle's side is asked for approvals; without it they are refused."""
    external: tuple[str, ...] = ()
    """The names of those tools whose calls are run outside, and whose results may be handed in after a restart."""
    worker_patience: float | None = WORKER_PATIENCE
    notes: str = ""
    """The file of the model's notes, on the host's side; ``":memory:"`` keeps them as long as the session."""
    tool_wait: float | None = TOOL_WAIT
    """Seconds after which a call that got no result has failed; None: it may take for ever."""
    redact: Secrets | None = Secrets()
    """What is kept out of the recording; None: everything is recorded as it is."""
    window: int | None = field(default=None)
    """How many events of a turn may be unread: the session waits then for ``read``. None: any number."""
    journal: str | None = None
    """A file on the host's side."""
    fsync: Fsync = "turn"

    def __attrs_post_init__(self) -> None:
        for name, seconds in (("worker_patience", self.worker_patience), ("tool_wait", self.tool_wait)):
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"{name} must be above 0 seconds, not {seconds:g}; None waits for ever")

    @window.validator
    def _check_window(self, _attribute: Attribute[int | None], value: int | None) -> None:
        if value is not None and value < 1:
            raise ConfigError(f"window must be above 0, not {value}; None is for any number of unread events")
