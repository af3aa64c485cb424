"""Sessions on DBOS, on SQLite or PostgreSQL. Needs the extra dbos."""

from __future__ import annotations

from cognition import ConfigError
from runtime.models.installation import install_line as _install_line

try:
    import dbos as dbos
except ImportError as _missing:  # pragma: no cover - the extra is installed wherever this is tested
    raise ConfigError(f"sessions on DBOS need the extra: {_install_line('dbos')}") from _missing
