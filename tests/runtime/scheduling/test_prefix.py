"""What two rows of tokens share."""

from hypothesis import given, strategies as st

from runtime.scheduling.tokens import common_prefix

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
