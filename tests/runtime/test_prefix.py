"""Prefix planning is a pure function with properties."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.prefix import PrefixPlan, common_prefix, plan_prefix

tokens = st.lists(st.integers(0, 2), max_size=40)
extended = st.tuples(tokens, tokens, tokens).map(lambda parts: (parts[0] + parts[1], parts[0] + parts[2]))
"""Two sequences that often share a long start."""


@given(extended)
def test_the_common_prefix_is_the_longest_shared_start(pair: tuple[list[int], list[int]]) -> None:
    """What is shared is equal, and one token more is not."""
    a, b = pair
    shared = common_prefix(a, b)

    assert a[:shared] == b[:shared]
    assert a[shared : shared + 1] != b[shared : shared + 1] or shared == len(a) == len(b)


@given(extended, st.booleans())
def test_cache_and_evaluation_give_the_prompt(pair: tuple[list[int], list[int]], can_cut: bool) -> None:
    """What is kept and what is evaluated make up the prompt, and at least one token is evaluated."""
    held, prompt = pair
    plan = plan_prefix(held, prompt, can_cut=can_cut)

    assert held[: plan.keep] + prompt[plan.keep :] == prompt
    assert plan.keep < len(prompt) or prompt == []


@given(extended)
def test_what_can_be_cut_is_reused_as_far_as_possible(pair: tuple[list[int], list[int]]) -> None:
    """One token more could not be kept."""
    held, prompt = pair
    keep = plan_prefix(held, prompt).keep

    assert keep in (common_prefix(held, prompt), len(prompt) - 1, 0)
    assert keep >= min(common_prefix(held, prompt), len(prompt) - 1)


@given(extended)
def test_what_can_not_be_cut_is_kept_whole_or_not_at_all(pair: tuple[list[int], list[int]]) -> None:
    """A recurrent cache serves only a prompt that goes on from its end; what that costs is said."""
    held, prompt = pair
    plan = plan_prefix(held, prompt, can_cut=False)

    assert plan.keep in (0, len(held))
    assert plan.keep + plan.lost == plan_prefix(held, prompt).keep


def test_a_conversation_that_goes_on() -> None:
    """The usual case: the prompt begins with all that the cache holds."""
    assert plan_prefix([1, 2, 3], [1, 2, 3, 4, 5]) == PrefixPlan(3)
