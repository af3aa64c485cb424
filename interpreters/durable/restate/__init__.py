"""Sessions on a Restate server. Needs the extra restate."""
