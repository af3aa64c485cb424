"""Sessions on an engine that survives processes and machines: one loop of a run for all, a small adapter each."""
