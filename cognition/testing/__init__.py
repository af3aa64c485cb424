"""Checks of the agent core's laws for any engine. For tests only; no other package imports this one.

``laws`` and ``explore`` come from here. Modules that need Hypothesis are imported by name:
``cognition.testing.machine`` and ``cognition.testing.strategies``.
"""

from cognition.testing._explore import Exploration, explore
from cognition.testing._laws import InconclusiveError, Law, LawViolation, laws
from cognition.testing._moves import moves
from cognition.testing._sample_inputs import ANY
from cognition.testing._situations import default_alphabet
from cognition.testing._trace import Trace, trace
from cognition.testing._world import Edge, Turn, World, advance

__all__ = [
    "ANY",
    "Edge",
    "Exploration",
    "InconclusiveError",
    "Law",
    "LawViolation",
    "Trace",
    "Turn",
    "World",
    "advance",
    "default_alphabet",
    "explore",
    "laws",
    "moves",
    "trace",
]
