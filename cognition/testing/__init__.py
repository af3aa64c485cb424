"""Checks of the agent core's laws for any engine. For tests only; no other package imports this one.

``laws`` and ``explore`` come from here. Modules that need Hypothesis are imported by name:
``cognition.testing.machine`` and ``cognition.testing.strategies``.
"""

from cognition.testing._breadth import Exploration as Exploration
from cognition.testing._law import (
    InconclusiveError as InconclusiveError,
    Law as Law,
    LawReport as LawReport,
    LawViolation as LawViolation,
)
from cognition.testing._laws import explore as explore, laws as laws
from cognition.testing._moves import moves as moves
from cognition.testing._premises import Premise as Premise
from cognition.testing._sample_inputs import ANY as ANY
from cognition.testing._situations import default_alphabet as default_alphabet
from cognition.testing._trace import Trace as Trace, trace as trace
from cognition.testing._world import Edge as Edge, Turn as Turn, World as World, advance as advance
