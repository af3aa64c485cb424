"""Plans which tokens of which sequences are evaluated next: pure values and functions; see ``docs/scheduler.md``."""
