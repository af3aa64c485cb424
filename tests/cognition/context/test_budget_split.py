"""One budget for several claims: who gets what."""

import pytest
from hypothesis import example, given, strategies as st

from cognition.context._budget_split import WHOLE, Claim, split_budget, thousandths
from cognition.values.candidates import DEFAULT_SECTIONS

MUCH = 10**6


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    shares = draw(st.lists(st.integers(0, 400), max_size=5).filter(lambda some: sum(some) <= WHOLE))
    found = []
    for share in shares:
        needed = draw(st.just(0) | st.integers(0, 60))
        found.append(Claim(share, needed, needed + draw(st.integers(0, 200)), draw(st.booleans())))
    return found


TOTALS = st.integers(0, 300)


@given(TOTALS, claims())
def test_what_is_dealt_is_never_more_than_there_is_or_is_wanted(total: int, claims: list[Claim]) -> None:
    amounts = split_budget(total, claims)

    if amounts is None:
        assert sum(claim.needed for claim in claims) > total
        return
    assert sum(amounts) <= total
    assert all(claim.needed <= amount <= claim.wanted for claim, amount in zip(claims, amounts, strict=True))


@given(TOTALS, TOTALS, claims())
@example(20, 21, [Claim(150, 0, 99), Claim(100, 0, 99, True), Claim(300, 19, 50), Claim(250, 0, 99)])
def test_a_larger_total_gives_nobody_less(total: int, more: int, claims: list[Claim]) -> None:
    before, after = split_budget(total, claims), split_budget(total + more, claims)

    if before is not None:
        assert after is not None
        assert all(one <= other for one, other in zip(before, after, strict=True))


@given(TOTALS, claims(), st.integers(0, 200))
def test_what_steady_claims_get_does_not_depend_on_how_much_the_others_want(
    total: int, claims: list[Claim], more: int
) -> None:
    larger = [claim if claim.steady else Claim(claim.share, claim.needed, claim.wanted + more) for claim in claims]
    before, after = split_budget(total, claims), split_budget(total, larger)

    if before is not None and after is not None and not any(claim.needed for claim in claims):
        steady = [place for place, claim in enumerate(claims) if claim.steady]
        assert [before[place] for place in steady] == [after[place] for place in steady]


@given(TOTALS, claims())
def test_nothing_is_left_while_somebody_may_still_have_it(total: int, claims: list[Claim]) -> None:
    amounts = split_budget(total, claims)

    if amounts is not None and any(
        amount < claim.wanted for claim, amount in zip(claims, amounts, strict=True) if not claim.steady
    ):
        assert total - sum(amounts) <= len(claims), "what is left is parts of one"


def test_the_shares_of_the_reference() -> None:
    """8,000 tokens are 1,200, 800, 2,400, 1,600 and 2,000."""
    shares = [thousandths(section.share) for section in DEFAULT_SECTIONS]

    assert split_budget(8000, [Claim(share, 0, MUCH) for share in shares]) == (1200, 800, 2400, 1600, 2000)


def test_what_one_leaves_goes_to_the_others_in_their_order() -> None:
    """The reference left it unused."""
    wants = (200, MUCH, 1000, 5000, MUCH)
    shares = [thousandths(section.share) for section in DEFAULT_SECTIONS]

    amounts = split_budget(8000, [Claim(share, 0, want) for share, want in zip(shares, wants, strict=True)])

    assert amounts == (200, 800 + 1000 + 1400, 1000, 1600, 2000)


def test_what_is_needed_comes_before_any_share() -> None:
    assert split_budget(100, [Claim(500, 80, 90), Claim(500, 0, 90)]) == (80, 20)
    assert split_budget(100, [Claim(500, 80, 90), Claim(500, 21, 90)]) is None


def test_steady_claims_share_what_they_leave_among_themselves_first() -> None:
    claims = [Claim(300, 0, 10, True), Claim(300, 0, 99, True), Claim(400, 0, 0)]

    assert split_budget(100, claims) == (10, 50, 0)


@pytest.mark.parametrize(("share", "thousand"), [(0, 0), (0.1, 100), (0.15, 150), (0.29, 290), (1 / 3, 333), (1, 1000)])
def test_a_share_in_thousandths(share: float, thousand: int) -> None:
    assert thousandths(share) == thousand


def test_the_room_that_steady_claims_leave_is_given_once() -> None:
    """The first one leaves 20: the second takes them, and for the third only its share is left."""
    claims = [Claim(300, 0, 10, True), Claim(200, 0, 99, True), Claim(100, 0, 99, True), Claim(400, 0, 0)]

    assert split_budget(100, claims) == (10, 40, 10, 0)


def test_a_steady_claim_has_no_more_than_its_share_where_none_leaves_anything() -> None:
    assert split_budget(999, [Claim(1, 0, 5, True)]) == (0,), "not even a thousandth, which would make it a whole one"
