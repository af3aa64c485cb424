"""Sessions on DBOS, on SQLite or PostgreSQL. Needs the extra dbos."""
