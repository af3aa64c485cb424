"""Stop texts are found wherever the text is cut, and nothing else is held back for long."""

from hypothesis import given, strategies as st

from runtime.local.stops import StopFilter

letters = st.text("ab", max_size=12)


def shown(stops: list[str], chunks: list[str]) -> tuple[str, bool]:
    """What comes through in all, and whether a stop text was found."""
    stop_filter = StopFilter(stops)
    text = "".join(map(stop_filter.feed, chunks))
    return text + stop_filter.finish(), stop_filter.hit


def expected(stops: list[str], text: str) -> tuple[str, bool]:
    """The definition: the shortest start of the text that ends with a stop text, without the longest such one."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


@given(st.lists(letters, max_size=3), st.lists(letters, max_size=6))
def test_every_way_of_cutting_gives_the_same(stops: list[str], chunks: list[str]) -> None:
    """What is shown depends on the text alone."""
    text = "".join(chunks)

    assert shown(stops, chunks) == shown(stops, list(text)) == shown(stops, [text]) == expected(stops, text)


@given(st.lists(letters, min_size=1, max_size=3), letters)
def test_only_the_start_of_a_stop_text_is_held_back(stops: list[str], text: str) -> None:
    """What is held back is the beginning of one of them, never all of it."""
    stop_filter = StopFilter(stops)
    passed = stop_filter.feed(text)
    if stop_filter.hit:
        return
    held = text.removeprefix(passed)

    assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
