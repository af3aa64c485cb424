"""Which tokens of which sequences a model evaluates next: pure values and functions; see ``docs/scheduler.md``."""
