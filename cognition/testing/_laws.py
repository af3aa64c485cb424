"""The ten laws of the agent core, as checks for any engine.

    >>> from cognition import LLMEngine
    >>> from cognition.testing import laws
    >>> [law.name for law in laws(LLMEngine())][:2]
    ['L1', 'L2']

``law.check()`` searches with Hypothesis; ``explore`` and ``machine`` apply the same checks to every step they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cognition.steps.inputs import Input
from cognition.testing import (
    _budget_laws as budget_laws,
    _edge_laws as edge_laws,
    _permission_laws as permission_laws,
    _repetition_laws as repetition_laws,
    _state_laws as state_laws,
)
from cognition.testing._breadth import Exploration, Spread, explore_breadth
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._law import EdgeCheck, Law, LawReport, Probe, StateCheck
from cognition.testing._premises import PREMISES, checked_without
from cognition.testing._situations import default_alphabet
from cognition.testing._world import AnyEngine

STATEMENTS: tuple[tuple[str, str, str], ...] = (
    (
        "L1",
        "pure",
        "Equal state and input give equal transitions, arguments are never changed, and a step reads no clock, draws "
        "no randomness and does no I/O.",
    ),
    (
        "L2",
        "total",
        "Any input in any reachable state gives a transition, never an exception. An input that does not belong "
        "(stale, foreign, duplicate, out of phase) leaves the state equal and yields one Rejected.",
    ),
    (
        "L3",
        "answered",
        "Before the next model call every tool call of the reply has exactly one result, directly after it and in call "
        "order; any arrival order of the results gives the same history.",
    ),
    (
        "L4",
        "ordered",
        "Calls run in the order given, unless each of a contiguous run of them may run beside others, as read-only "
        "ones may; those may run together. None runs twice, unless it failed in a way that may pass and its tool may "
        "be run again: then after the waits of its plan, and no more often than that has.",
    ),
    (
        "L5",
        "permitted",
        "Nothing runs that policy did not allow or the user did not approve; what runs is, to the byte, what was "
        "proposed and approved; adding a deny rule never permits more. What a rule decides, and every denial, is told "
        "with its rule; what is remembered from now on is what the user said, and only the user takes it back.",
    ),
    (
        "L6",
        "bounded",
        "Every turn ends with exactly one TurnFinished, its last decision, with nothing left in flight. Steps, tool "
        "calls, refusals, tokens, cost and wall time are budgets that nothing overdraws. Calls that repeat end a turn "
        "if their results repeat too, and only then. A summary is asked for once in some replies at most, never in "
        "place of the last one, and is taken only if it makes prompts smaller. A call goes to the first model of its "
        "order that works, as far as its breaker and the turn know, and no turn fails while one of them was not asked.",
    ),
    (
        "L7",
        "cancellable",
        'Cancelling reaches idle in one step, cancels each effect in flight, gives each open call a "cancelled" '
        "result, and leaves a history that the next model call accepts.",
    ),
    (
        "L8",
        "faithful",
        "Every state, input and decision comes back equal from its JSON, and a stored state goes on as the live one.",
    ),
    (
        "L9",
        "fits",
        "A counted request never exceeds the context, and an estimate only chooses: beyond its budget, a request is as "
        "small as it can be. A request begins at a turn, leaves nothing out after that, and has the system prompt and "
        "the newest user message whole. Where a summary stands for what came before, it stands in "
        "front, and within a turn the user's message right behind it; what follows begins with a reply.",
    ),
    (
        "L10",
        "alive",
        "From every reachable state benign answers lead to idle, something is in flight until then, a model that "
        "says nothing is nudged at most twice, and after a reset a message reaches the model as in a new session.",
    ),
)

CHECKS: dict[str, tuple[tuple[Probe, ...], tuple[EdgeCheck, ...], tuple[StateCheck, ...]]] = {
    "L1": ((edge_laws.check_purity,), (), ()),
    "L2": ((), (edge_laws.check_totality,), (state_laws.check_none_as_input,)),
    "L3": ((), (edge_laws.check_results,), (state_laws.check_arrival_order,)),
    "L4": ((), (edge_laws.check_order,), ()),
    "L5": ((), (permission_laws.check_permitted, permission_laws.check_judgements), ()),
    "L6": ((), (budget_laws.check_bounded, repetition_laws.check_repetitions, budget_laws.check_routing), ()),
    "L7": ((), (edge_laws.check_cancelled_effects,), (state_laws.check_cancellable,)),
    "L8": (
        (),
        (edge_laws.check_input_encoding, edge_laws.check_decisions_encoding),
        (state_laws.check_state_encoding,),
    ),
    "L9": ((), (edge_laws.check_request_size,), ()),
    "L10": ((), (), (state_laws.check_liveness, state_laws.check_nudges, state_laws.check_reset)),
}
"""The checks of each law: before a step, of a step, of a situation."""


def laws(
    engine: AnyEngine,
    *,
    alphabet: Sequence[Input] | None = None,
    start: Any = None,
    without: str | Iterable[str] = (),
) -> list[Law]:
    """Return the ten laws for this engine, in order.

    Laws about tools, policy, limits or the context (L4, L5, L6, L9) use the engine's attribute ``config`` if it is an
    ``AgentConfig``. Otherwise they check only facts that need no configuration.

    Args:
        engine: Any engine.
        alphabet: The inputs to search with, as in ``explore``; default: all that the strategies generate. Pass one if
            only certain messages make your engine run its tools.
        start: The initial state of a session; ``AgentState()`` unless the engine has its own state class. The laws
            don't read a state that is not an ``AgentState``; they then use only inputs and decisions. L4 and L5 then
            check nothing, and L3, L7 and L9 only requests.
        without: Parts that the engine lacks, so that no premise about them is required: ``"model"``, ``"tools"``,
            ``"policy"``, ``"limits"``, ``"context"``; also names of laws that don't apply to it, such as ``"L4"``. The
            laws are checked as ever.

    Raises:
        ConfigError: ``without`` has another word.
    """
    subject, letters = EngineUnderTest.of(engine, start), None if alphabet is None else tuple(alphabet)
    lacking = checked_without(without)
    return [
        Law(name, title, text, subject, search, *CHECKS[name], letters, PREMISES[name], lacking)
        for name, title, text in STATEMENTS
    ]


def search(law: Law, max_examples: int, max_inputs: int, derandomize: bool) -> LawReport:
    """Search with Hypothesis, which the laws themselves do not depend on.

    Raises:
        ConfigError: Hypothesis is not installed; names the extra.
    """
    from cognition.testing._search import report_on

    return report_on(law, max_examples, max_inputs, derandomize)


def explore(
    engine: AnyEngine,
    alphabet: Sequence[Input] | None = None,
    limit: int = 10_000,
    *,
    leave_out: Sequence[str] = (),
    on_progress: Callable[[Exploration], None] | None = None,
    spread: Spread = map,
    start: Any = None,
    without: str | Iterable[str] = (),
) -> Exploration:
    """Visit every situation that the alphabet leads to, nearest first, and check all laws on every situation and step.

    Situations are compared without the names in them, see ``situation``. Each is tried with all inputs of the alphabet,
    answers to all effects in flight in any order, and late, duplicate, foreign and mismatched answers.

    Args:
        engine: Any engine.
        alphabet: Inputs, with ``ANY`` as the id of the effect that they answer. Default: ``default_alphabet``.
        limit: Once this many situations are known, no new ones are added. All known situations are checked.
        leave_out: Names of laws to skip, such as ``"L2"``.
        on_progress: Called now and then with the result so far.
        spread: Applies a function to parts of the work. A ``map`` over forked processes uses several cores; the
            function reads the search's state at the time of the call.
        start: The state at the start of the search; ``AgentState()`` unless an engine has its own state class.
        without: As in ``laws``.

    Returns:
        The extent of the search, the first violation with a shortest way to it, and a report on each law, which is
        inconclusive if the search did not reach its premises.
    """
    letters = default_alphabet(getattr(engine, "config", None)) if alphabet is None else tuple(alphabet)
    held = [law for law in laws(engine, start=start, without=without) if law.name not in leave_out]
    return explore_breadth(engine, held, letters, limit, on_progress=on_progress, spread=spread, start=start)
