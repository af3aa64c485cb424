"""Errors of the embedding program. Mistakes of a model or a tool are data, never exceptions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from cognition.base.display import LONGEST_LINE, shown_name, shown_text


class CogstepError(Exception):
    """Base of every error that cogstep raises on purpose. Each message explains the next step.

    ``str()`` of the error, which Python prints if it is uncaught, is one line of bounded length without terminal
    control characters; ``args`` has the original message.
    """

    lines: ClassVar[bool] = False
    """Whether the message has several lines. The error class must then make each line safe."""

    def __str__(self) -> str:
        message = super().__str__()
        return shown_text(message) if self.lines else shown_name(message, LONGEST_LINE)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it with its attributes, whatever its constructor takes."""
        return _made_again, (type(self), self.args, dict(vars(self)))


def _made_again(kind: type[CogstepError], arguments: tuple[Any, ...], attributes: Mapping[str, Any]) -> CogstepError:
    error = kind.__new__(kind)
    if isinstance(error, OSError):  # it keeps its attributes, such as ``strerror``, for itself
        OSError.__init__(error, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    return error


class ConfigError(CogstepError, ValueError):
    """A configuration, tool or policy that can't work. The message names the field and the expected value."""


class CodecError(CogstepError, ValueError):
    """Data in a form that ``to_data`` does not write.

    Attributes:
        problems: every (path, problem), such as ``("$.phase.slots[1].call.name", "the field is missing")``.
    """

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{problem} @ {path}" for path, problem in problems))
        self.problems = problems
