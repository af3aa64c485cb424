"""Import this before Hypothesis: if Hypothesis is missing, the error names the extra that provides it."""

from __future__ import annotations

from cognition.base.errors import ConfigError


class HypothesisMissingError(ConfigError, ModuleNotFoundError):
    """Hypothesis is not installed; the search for violations needs it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.name: str | None = "hypothesis"


try:
    import hypothesis  # noqa: F401  # looked for, and used by who imports this
except ModuleNotFoundError as _error:
    if _error.name != "hypothesis":
        raise
    raise HypothesisMissingError(
        "searching with Hypothesis needs the package `hypothesis`, which comes with an extra: pip install "
        "'cogstep[testing]' (cognition.testing.explore holds an engine to the same laws without it)"
    ) from _error
