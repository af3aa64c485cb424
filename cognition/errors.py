"""What goes wrong on the embedding program's side. What a model or a tool does wrong is data, never an exception."""


class CogstepError(Exception):
    """Base of every error that cogstep raises on purpose. Each message says what to do next."""


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
