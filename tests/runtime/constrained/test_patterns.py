"""Patterns of JSON Schema in the engine's dialect."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from interpreters.tools._ecma import Pattern, UnreadablePatternError
from runtime.constrained._formats import FORMATS
from runtime.constrained._patterns import PatternError, anchor_pattern, literal, text_verdict
from runtime.constrained.nodes import Text

PATTERNS = [
    "^[a-c]+x?$",
    "a|^b$",
    "[ab]{2}",
    "^$",
    "^a\\$",
    "c$",
    "^(a|b)c",
    "[\\]a]",
    "[^\\]a]b$",
    "^(a|b$)",
    "(^|x)a(b|$)",
    "(?:^a|b)|(c$|^$)",
    "\\d-\\w",
    "[\\d\\s]x",
    "\\/",
]


@given(st.sampled_from(PATTERNS), st.text("abcx]$3- /_", max_size=6))
def test_an_anchored_pattern_covers_the_texts_in_which_the_original_is_found(pattern: str, text: str) -> None:
    """``re.search`` with the one says the same as ``re.fullmatch`` with the other."""
    assert (re.search(pattern, text) is not None) == (re.fullmatch(f"(?:{anchor_pattern(pattern)})", text) is not None)


@given(st.text(max_size=8))
def test_a_literal_covers_its_text(text: str) -> None:
    """Signs that mean something in patterns stand for themselves."""
    assert re.fullmatch(literal(text), text)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?=a)b", "of groups"),
        ("(?<!a)b", "of groups"),
        ("(a)\\1", "escape"),
        ("\\bword\\b", "escape"),
        ("a^b", "may only stand"),
        ("^(a|b$)+", "may only stand"),
        ("a{1,9999999}", "repetitions"),
        ("(?i)a", "no regular expression of ECMA 262"),
        ("\\p{Script=Greek}", "property"),
        ("(", "no regular expression"),
        ("a++", "no regular expression"),
        ("[b-a]", "no regular expression"),
    ],
)
def test_a_pattern_that_can_not_be_held_to_is_refused(pattern: str, told: str) -> None:
    """With what is wrong with it."""
    with pytest.raises(PatternError, match=told):
        anchor_pattern(pattern)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2026-11-30", "2024-02-29", "2000-02-29"], ["2026-11-31", "1900-02-29", "2026-1-1"]),
        ("time", ["23:59:59Z", "23:59:60.123456789z", "08:00:00"], ["24:00:00Z", "1:00:00Z"]),
        ("date-time", ["2026-01-31T00:00:00.5+01:30", "2026-01-31t00:00:00z"], ["2026-01-31 00:00:00"]),
        (
            "duration",
            ["P3DT4H", "PT1H30M", "P1Y2M", "P1DT2H3M4S", "P4W", "PT36H", "P1000000D"],
            ["P", "PT", "P1H", "P1YT", "PT1H30S", "P1D2W", "1H"],
        ),
        (
            "email",
            ["a.b@example.org", "o'hara@example.org", "a/b=c@d", '"a b"@c.d', "a@[127.0.0.1]", "a@[IPv6:::1]"],
            ["a@", "a b@c", ".a@b", "a..b@c", "a"],
        ),
        ("hostname", ["www.example.org", "a.b.c.d.e.f.g.h", "x" * 63], ["-a.org", "a-.org", "a..b", "x" * 64]),
        ("ipv4", ["192.168.0.255"], ["1.2.3.256", "1.2.3", "01.2.3.4"]),
        (
            "ipv6",
            ["fe80:0:0:0:0:0:0:1", "::", "::1", "1::", "1:2::3", "::ffff:1.2.3.4", "1::2:3:4:5:6:7", "1:2:3:4:5:6:7::"],
            ["1:2", "::1::", "1:2:3:4:5:6:7:8:9", "12345::", "1:2:3:4:5:6:7:8::", ":1"],
        ),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
        (
            "uri",
            [
                "https://example.org/a/b?q=fern&n=2#part",
                "https://example.org/wiki/K%C3%B6ln_(Stadt)",
                "mailto:a@b.c",
                "urn:isbn:0451450523",
                "http://[::1]:80000//a",
                "https://user:word@h.example:8080/p;x=1?a/b?c#f/?",
                "file:///c:/x%20y",
            ],
            ["example.org", "/a", "//a", "https://a b", "http://[::1", "https://a/%zz", "1a:b"],
        ),
    ],
)
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    """Each format with texts of its standard, and with others."""
    assert [text for text in good if re.fullmatch(FORMATS[name], text)] == good
    assert [text for text in bad if re.fullmatch(FORMATS[name], text)] == []
    assert text_verdict(Text(f"^(?:{FORMATS[name]})$", 0, 255)) == "fits"


ATOMS = """
a b A 0 _ - . é 😀 \\d \\w \\s \\D \\W \\S \\. \\/ \\n \\cJ \\x41 \\u0061 \\u{1F600} \\ud83d\\ude00 \\0
\\p{L} \\P{L} \\p{Lu} ^ $ [ab] [^a] [^\\s] [^\\W] [\\w-] [\\d-x] [] [^] [&&] [a&&b] [a--b] [[a] [\\]a]
[\\b] [\\p{L}0] [^\\p{L}] (?:a|b) (a) (a|) (^a|b$) (?:^|x)a(?:$|y) | { } a{,3} \\A \\Z \\_ ~ # -- && ( )
(?: (?= (?! \\b \\1 (?<n>a) \\k<n>
""".split()
TEXTS = "abAB0_ -.\n/{},]xyz&~#|\x00\x08\r\x1c\x85\xa0\ufeff\u2028éßα😀٣K\u017f"


@pytest.mark.behaviour("S13j")
@settings(max_examples=500)
@given(
    st.lists(
        st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{1,2}"])), max_size=6
    ),
    st.lists(st.text(TEXTS, max_size=4), min_size=1, max_size=8),
)
def test_a_pattern_means_the_same_to_sampling_and_to_the_check(pieces: list[tuple[str, str]], texts: list[str]) -> None:
    """Whatever sampling is held to, the check after the call finds the pattern in just these texts."""
    pattern = "".join(atom + times for atom, times in pieces)
    try:
        covering, found = re.compile(f"(?:{anchor_pattern(pattern)})"), Pattern(pattern)
    except (PatternError, UnreadablePatternError):
        return
    for text in texts:
        assert (covering.fullmatch(text) is not None) == found.matches(text, 5)


@pytest.mark.behaviour("S13j")
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^(?:[]a]|b)$", "b", "a]"),
        ("^(a\\1)$", "a", "aa"),
        ("^[^]$", "\n", "ab"),
        ("^\\s$", "\ufeff", "\x1c"),
        ("^\\S$", "\x85", "\u2028"),
        ("^.$", "\x85", "\r"),
        ("^\\w$", "a", "é"),
        ("^\\W$", "é", "a"),
        ("^[^\\W]$", "a", "é"),
        ("^\\d$", "3", "٣"),
        ("^\\p{L}$", "é", "3"),
        ("^\\P{L}$", "3", "é"),
        ("^[\\p{Lu}-]+$", "É-", "é"),
        ("^\\cA\\0$", "\x01\x00", "cA0"),
        ("^(?<y>a)b$", "ab", "b"),
        ("^\\u{1F600}|\\ud83d\\ude00x$", "😀x", "x"),
        ("^a{,2}$", "a{,2}", "aa"),
        ("^[a&&b]+$", "a&b", "c"),
        ("^\\-\\_\\@$", "-_@", "a"),
        ("a$", "ba", "a\n"),
    ],
)
def test_patterns_are_those_of_ecma_262(pattern: str, good: str, bad: str) -> None:
    """For sampling and for the check, whatever the engines' own dialects say."""
    covering, found = re.compile(f"(?:{anchor_pattern(pattern)})"), Pattern(pattern)

    assert found.matches(good, 1)
    assert covering.fullmatch(good) is not None
    assert not found.matches(bad, 1)
    assert covering.fullmatch(bad) is None
    assert text_verdict(Text(pattern)) == "fits"


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^\\bé", None, "é"),
        ("é\\B", "é", "éa"),
        ("^(a)?\\1b$", "b", "ab"),
        ("^(?=.*\\d)(?!x).{2,}$", "a1", "x1"),
        ("^(?i)ab$", "AB", "c"),
    ],
)
def test_what_only_the_check_can_match(pattern: str, good: str | None, bad: str) -> None:
    """It is matched there, as the standard has it, and sampling is not held to it."""
    with pytest.raises(PatternError):
        anchor_pattern(pattern)
    assert good is None or Pattern(pattern).matches(good, 1)
    assert not Pattern(pattern).matches(bad, 1)
