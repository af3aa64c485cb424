"""Imported before Hypothesis by every module here that needs it: says which extra it comes with where it is missing."""

from __future__ import annotations

from cognition.errors import ConfigError


class HypothesisMissingError(ConfigError, ModuleNotFoundError):
    """Hypothesis, with which laws are searched, is not installed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.name = "hypothesis"


try:
    import hypothesis  # noqa: F401  # looked for, and used by who imports this
except ModuleNotFoundError as error:
    if error.name != "hypothesis":
        raise
    raise HypothesisMissingError(
        "searching with Hypothesis needs the package `hypothesis`, which comes with an extra: pip install "
        "'cogstep[testing]' (cognition.testing.explore holds an engine to the same laws without it)"
    ) from error
