"""Plain text: no reasoning, no calls. For models whose template knows neither, and for raw output."""

from __future__ import annotations

from cognition.parsing.spec import FormatSpec

PLAIN = FormatSpec("plain")
