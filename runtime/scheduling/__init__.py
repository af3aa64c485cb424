"""Plans which tokens of which sequences are evaluated next, as pure values and functions.

See ``docs/concepts/scheduler.md``.
"""
