"""Which texts only a template may write, and how they are found."""

import re

import pytest
from hypothesis import given, strategies as st

from runtime.protocol.backend import SpecialTokens
from runtime.templates.markers import Markers, TextFinder, control_texts, format_markers, split_at

TEXTS = ("<a>", "<ab>", "<a><b>", "[x]", "\n<", '"a": "', "ａb")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("<tool_call>", True),
        ("[TOOL_CALLS]", True),
        ('<|"|>', True),
        ("｜x｜", True),
        ("/nothink", True),
        ("@@user@@", True),
        ('": {"type": "string', True),
        ("\n</tools>\nwords", True),
        ("    ", False),
        ("\n\n", False),
        ("----", False),
        ("...", False),
        ("COVID-19", False),
        (" the", False),
        ("x", False),
        ("日本", False),
    ],
)
def test_which_added_tokens_are_markers(text: str, is_one: bool) -> None:
    """Those that are more than words or signs, whether the template has them or not."""
    assert (text in control_texts(SpecialTokens({}, {text: 1}), "")) is is_one


def test_all_control_tokens_are_markers_and_so_is_what_the_template_uses() -> None:
    """Even words, where the template writes them: then they mean something."""
    special = SpecialTokens({"<|im_end|>": 1, "<|unused|>": 2}, {"assistant": 3, "user": 4, "    ": 5, "x": 6})

    assert control_texts(special, "{{ '    ' }}assistant x") == {"<|im_end|>", "<|unused|>", "assistant"}


def test_markers_of_a_format_are_those_that_strings_of_a_call_can_hold_none_of() -> None:
    """Added tokens that the template does not use are pieces of text to a grammar, and so are those with quotes."""
    special = SpecialTokens({"<|im_end|>": 1}, {"<tool_call>": 2, "<table>": 3, '{"name": "': 4})

    assert format_markers(special, '<tool_call>{"name": "') == {"<|im_end|>", "<tool_call>"}


class TestFinder:
    @given(st.lists(st.sampled_from([*'<>ab[]x\n":， ', *TEXTS]), max_size=12).map("".join))
    def test_the_longest_text_is_found_at_each_place(self, text: str) -> None:
        """As by trying them all everywhere."""
        expected = [
            (start, start + max(len(one) for one in TEXTS if text.startswith(one, start)))
            for start in range(len(text))
            if any(text.startswith(one, start) for one in TEXTS)
        ]

        assert list(TextFinder(TEXTS).spans(text)) == expected

    def test_letters_may_be_of_either_case(self) -> None:
        """A template may change them."""
        assert list(TextFinder(["<|im_end|>"], any_case=True).spans("a<|IM_end|>")) == [(1, 11)]

    def test_thousands_of_texts_take_no_longer_than_ten(self) -> None:
        """Counted in texts that are tried: those that begin alike and are as long are one look-up."""
        finder = TextFinder(f"<unused{number}>" for number in range(6000))

        assert list(finder.spans("<" * 1000 + "<unused77>")) == [(1000, 1010)]
        assert finder._lengths == {"<u": [12, 11, 10, 9]}

    def test_nothing_is_found_where_there_is_nothing_to_find(self) -> None:
        """A model without any special token."""
        assert list(TextFinder(()).spans("<|im_end|>")) == []


class TestContentAtItsEnds:
    MARKERS = Markers(("<|im_end|>", "<think>", "<|a b|>", '": {"type'), source="{{ '<' + name + '>' }}<|{{ x }}|")

    @pytest.mark.parametrize("content", ["<", "a <|", "<|im_end|", "x<|IM_", "<|a", '"'])
    def test_a_marker_may_begin_at_its_end(self, content: str) -> None:
        """What stands behind it could go on with it."""
        assert self.MARKERS.begins_in(content)

    @pytest.mark.parametrize("content", [">", "|> b", "im_end|>", "END|>", "hink> x", "b|>", "ype"])
    def test_a_marker_may_end_at_its_start(self, content: str) -> None:
        """What stands before it could have begun it."""
        assert self.MARKERS.ends_in(content)

    @pytest.mark.parametrize("content", ["", "hello", "a < b > c", "1 | 2", "the end.", "<b>bold</b> x"])
    def test_ordinary_content_is_neither(self, content: str) -> None:
        """So it is left as it is."""
        assert not self.MARKERS.begins_in(content)
        assert not self.MARKERS.ends_in(content)

    @pytest.mark.parametrize(
        ("content", "may"),
        [("think", True), ("THINK", True), ("hin", False), ("type", False), ("b", False), ("", False)],
    )
    def test_the_template_may_write_both_ends(self, content: str, may: bool) -> None:
        """Only where its source has a text that ends so, and one that begins so."""
        assert self.MARKERS.completed_by(content) is may


@given(st.text(max_size=20), st.sets(st.integers(0, 20)))
def test_parts_of_a_cut_text_are_the_text(text: str, places: set[int]) -> None:
    """However it is cut."""
    within = sorted(place for place in places if place < len(text))

    assert "".join(split_at(text, within)) == text
    assert len(split_at(text, within)) == len(within) + 1


def test_a_marker_is_known_before_it_is_escaped() -> None:
    """Content that only becomes a marker once it is written as JSON, or for HTML, is found before that."""
    markers = Markers((r"<\\x>", "&lt;y&gt;"))

    assert [re.escape(text) for text in (r"<\x>", "<y>") if list(markers.hidden.spans(text))] == [r"<\\x>", "<y>"]
