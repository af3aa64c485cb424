"""Formats of model families, one short module each: the wire format in its docstring, then the same as data."""

from cognition.parsing.formats.hermes import HERMES
from cognition.parsing.formats.plain import PLAIN

__all__ = ["HERMES", "PLAIN"]
