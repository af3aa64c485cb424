"""What goes wrong on the embedding program's side. What a model or a tool does wrong is data, never an exception."""

from typing import ClassVar

from cognition.shown import LONGEST_LINE, shown_name, shown_text


class CogstepError(Exception):
    """Base of every error that cogstep raises on purpose. Each message says what to do next.

    As text, which is what Python prints of an error that nobody catches, the message is one line of bounded length that
    steers no terminal, whatever names it repeats; ``args`` has it as it is.
    """

    lines: ClassVar[bool] = False
    """Whether the message is a page of several lines, each of which the error itself keeps safe."""

    def __str__(self) -> str:
        message = super().__str__()
        return shown_text(message) if self.lines else shown_name(message, LONGEST_LINE)


class ConfigError(CogstepError, ValueError):
    """A configuration, tool or policy that can't work: names the field and what it should be."""


class CodecError(CogstepError, ValueError):
    """Data that is not what ``to_data`` writes.

    Attributes:
        problems: every (path, problem), such as ``("$.phase.slots[1].call.name", "the field is missing")``.
    """

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{problem} @ {path}" for path, problem in problems))
        self.problems = problems
