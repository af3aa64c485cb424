"""Sessions on DBOS, on SQLite or PostgreSQL. Needs the extra dbos."""

from __future__ import annotations

from cognition import ConfigError

try:
    import dbos as dbos
except ImportError as _missing:  # pragma: no cover - the extra is installed wherever this is tested
    raise ConfigError("sessions on DBOS need the extra: pip install 'cogstep[dbos]'") from _missing
