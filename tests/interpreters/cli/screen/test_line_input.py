"""Messages of one and of several lines, from any source of lines."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, strategies as st

from interpreters.cli.screen.line_input import MORE, PROMPT, read_message


def lines(*texts: str) -> Callable[[str], str | None]:
    source = iter(texts)
    return lambda _prompt: next(source, None)


def all_messages(texts: Iterable[str]) -> list[str]:
    read = lines(*texts)
    return list(iter(lambda: read_message(read), None))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([], []),
        (["one", "two"], ["one", "two"]),
        ([""], [""]),
        (["a \\", "b\\", "c", "d"], ["a \nb\nc", "d"]),
        (["a\\"], ["a"]),
        (['"""', "a\\", "", "/quit", '"""', "b"], ["a\\\n\n/quit", "b"]),
        (['  """ ', "a", '"""'], ["a"]),
        (['"""', "never closed"], ["never closed"]),
        (['"""', '"""'], [""]),
        (['say """ now'], ['say """ now']),
    ],
)
def test_lines_become_messages(typed: list[str], expected: list[str]) -> None:
    """A backslash continues, a fence holds a block, and the end of input ends whatever is open."""
    assert all_messages(typed) == expected


LINE = st.text().filter(lambda line: "\n" not in line)
MARKS = st.sampled_from(['"""', "a\\", "\\", "/quit"])


@given(st.lists(LINE.filter(lambda line: not line.endswith("\\") and line.strip() != '"""')))
def test_plain_lines_are_messages(typed: list[str]) -> None:
    """Without a mark each line is a message, to the letter."""
    assert all_messages(typed) == typed


@given(st.lists(LINE | MARKS))
def test_every_line_is_read_and_the_end_is_found(typed: list[str]) -> None:
    """Whatever is typed, reading ends, and no message is made of nothing."""
    found = all_messages(typed)

    assert len(found) <= len(typed)
    assert bool(found) == bool(typed)


def test_the_prompt_tells_a_beginning_from_a_continuation() -> None:
    """The first line of a message is asked for with one prompt, the others with another."""
    prompts = []
    source = iter(["a\\", "b"])

    def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return next(source)

    read_message(read)

    assert prompts == [PROMPT, MORE]
