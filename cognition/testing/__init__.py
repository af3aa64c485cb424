"""The laws of the agent core as checks that any engine can be held to; for tests, imported by nothing else.

``laws`` and ``explore`` come from here. What needs Hypothesis is imported by its own name:
``cognition.testing.machine`` and ``cognition.testing.strategies``.
"""

from cognition.testing.explore import Exploration, explore
from cognition.testing.laws import InconclusiveError, Law, LawViolation, laws
from cognition.testing.letters import ANY
from cognition.testing.moves import moves
from cognition.testing.situations import default_alphabet
from cognition.testing.story import Story, tell
from cognition.testing.world import Edge, Turn, World, advance

__all__ = [
    "ANY",
    "Edge",
    "Exploration",
    "InconclusiveError",
    "Law",
    "LawViolation",
    "Story",
    "Turn",
    "World",
    "advance",
    "default_alphabet",
    "explore",
    "laws",
    "moves",
    "tell",
]
