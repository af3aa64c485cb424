"""What of a prompt has to be evaluated, given what the model's cache holds: a pure function."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class PrefixPlan:
    """Keep the cache's first ``keep`` tokens, drop the rest of it, evaluate the prompt from ``keep`` on."""

    keep: int
    lost: int = 0
    """Tokens that cache and prompt share and that are evaluated again all the same, because the cache can't be cut."""


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences share from their start. Halving, since comparing slices costs next to nothing."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:  # a[:low] is shared, a[:high] is not
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def plan_prefix(held: Sequence[int], prompt: Sequence[int], *, can_cut: bool = True) -> PrefixPlan:
    """Which part of the cache serves this prompt.

    At least the prompt's last token is always evaluated, since sampling needs what the model says after it. A cache
    that can't be cut (recurrent and hybrid models) serves only a prompt that continues all of it.
    """
    shared = min(common_prefix(held, prompt), max(len(prompt) - 1, 0))
    if shared < len(held) and not can_cut:
        return PrefixPlan(0, lost=shared)
    return PrefixPlan(shared)
