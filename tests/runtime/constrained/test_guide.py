"""When sampling is held, and when it is free: the guide token by token, on a vocabulary made for it."""

from typing import Any

import pytest

from cognition import GenerationOptions, ToolSpec
from cognition.parsing import FORMATS, HERMES, FormatSpec
from cognition.parsing.formats import LLAMA3, MISTRAL
from runtime.constrained.schema import SchemaError
from runtime.errors import ConstraintError
from tests.runtime.constrained.vocabularies import Words

pytest.importorskip("llguidance")
from runtime.constrained.guide import Guide, GuideFactory
from runtime.constrained.masks import TokenMasks

NOW = ToolSpec("now", "", {"type": "object", "properties": {}})
ADD = ToolSpec("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
TOOLS = (NOW, ADD)


def made(spec: FormatSpec, words: Words, tools: tuple[ToolSpec, ...] = TOOLS, **options: Any) -> Guide:
    backend: Any = words
    guide = GuideFactory(TokenMasks(backend, ())).guide(spec, tools, GenerationOptions(**options))
    assert guide is not None
    return guide


def may_come(guide: Guide, token: int) -> bool:
    mask = guide.allowed_tokens()
    return mask is None or bool(mask[token // 8] >> token % 8 & 1)


def write(guide: Guide, words: Words, text: str) -> None:
    """Byte by byte, each of which has to be allowed."""
    for byte in text.encode():
        assert may_come(guide, byte), text
        assert guide.accept(byte, words.piece(byte))


CALL = '\n{"name": "add", "arguments": {"a": 17}}\n</tool_call>'


def test_outside_of_calls_nothing_is_masked() -> None:
    """Text, reasoning, and text behind a call are free."""
    words = Words()
    guide = made(HERMES, words)
    assert guide.allowed_tokens() is None
    write(guide, words, "<think>I <tool> will.</think>Well, <tool_cal")
    assert guide.allowed_tokens() is None
    write(guide, words, f"l>{CALL}")
    assert guide.allowed_tokens() is None
    write(guide, words, " And more.")


def test_a_call_quoted_in_reasoning_is_not_held() -> None:
    """It is reasoning; a call behind it is one, and held."""
    words = Words()
    guide = made(HERMES, words)
    write(guide, words, '<think>Not <tool_call>{"name": "add", "arguments": {"a": "x"}}</tool_call> nor <tool_call>!')
    assert guide.allowed_tokens() is None
    write(guide, words, '</think><tool_call>\n{"name": "add", "arguments": {"a": ')
    assert not may_come(guide, ord('"'))


def test_in_a_call_only_what_fits_may_come() -> None:
    """No text can be begun for a number, and the reply can't end."""
    words = Words()
    guide = made(HERMES, words)
    write(guide, words, '<tool_call>\n{"name": "add", "arguments": {"a": ')
    assert not may_come(guide, ord('"'))
    assert not may_come(guide, 0)


def test_a_name_that_is_not_offered_stays_the_models_own() -> None:
    """It is not bent into an offered one, which would run a tool that nobody meant; its arguments are an object."""
    words = Words()
    guide = made(HERMES, words)
    write(guide, words, '<tool_call>\n{"name": "ad')
    assert not may_come(guide, 0)
    write(guide, words, 'just", "arguments": {"b": "c"}}\n</tool_call>')
    assert guide.allowed_tokens() is None


def test_a_forced_name_is_an_offered_one() -> None:
    """What is forced is a call that can be carried out."""
    words = Words()
    guide = made(HERMES, words, tool_choice="required")
    write(guide, words, '<tool_call>\n{"name": "')
    assert [chr(byte) for byte in range(1, 256) if may_come(guide, byte)] == ["a", "n"]


def test_replies_of_one_model_are_each_held_to_their_own_tools() -> None:
    """Those of two agents at once: the second one's tools are not the first one's."""
    words, backend = Words(), Words()
    guides = GuideFactory(TokenMasks(backend, ()))  # type: ignore[arg-type]  # all that is asked of a backend
    options = GenerationOptions()
    text = ToolSpec("add", "", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    first, second = (guides.guide(HERMES, tools, options) for tools in ((ADD,), (text,)))
    assert first is not None
    assert second is not None
    for guide in (first, second):
        write(guide, words, '<tool_call>\n{"name": "add", "arguments": {"a": ')

    assert [may_come(guide, ord('"')) for guide in (first, second)] == [False, True]


def test_after_the_only_call_the_reply_ends() -> None:
    """Where calls are not to be parallel."""
    words = Words()
    guide = made(HERMES, words, parallel_calls=False)
    write(guide, words, f"<tool_call>{CALL}")

    assert [token for token in range(words.vocabulary) if may_come(guide, token)] == [0]


def test_a_second_call_is_held_too() -> None:
    """Each time a call begins, the grammar begins anew."""
    words = Words()
    guide = made(HERMES, words)
    write(guide, words, f"<tool_call>{CALL}\n<tool_call>{CALL}\n<tool_call>")

    assert guide.allowed_tokens() is not None


def test_a_token_that_straddles_the_marker_has_to_fit_behind_it() -> None:
    """``>{`` may end the marker, ``>x`` may not: another token is sampled in its place."""
    words = Words(">{", ">x", '>\n{"na')
    good, bad, long = (words.pieces.index(piece) for piece in (b">{", b">x", b'>\n{"na'))
    guide = made(HERMES, words)
    write(guide, words, "<tool_call")
    assert guide.accept(bad, words.piece(bad)) is False
    assert not may_come(guide, bad)
    assert may_come(guide, good)
    assert guide.accept(good, words.piece(good))
    write(guide, words, '"name": "now"')

    guide = made(HERMES, words)
    write(guide, words, "<tool_call")
    assert guide.accept(long, words.piece(long))
    assert not may_come(guide, ord("x"))
    write(guide, words, 'me": "now"')


def test_a_marker_that_is_a_token_begins_a_call() -> None:
    """And what ends the call is the token, not its text."""
    words = Words(special=("<tool_call>", "</tool_call>"))
    start, end = words.special.control["<tool_call>"], words.special.control["</tool_call>"]
    guide = made(HERMES, words)
    assert guide.accept(start, words.piece(start))
    write(guide, words, '{"name": "now", "arguments": {}}')
    assert not may_come(guide, ord("<"))
    assert guide.accept(end, words.piece(end))
    assert guide.allowed_tokens() is None


def test_a_bare_call_is_held_once_its_first_key_tells_what_it_is() -> None:
    """Any other JSON is text, and free."""
    words = Words()
    guide = made(LLAMA3, words)
    write(guide, words, '{"nam')
    assert guide.allowed_tokens() is None
    write(guide, words, 'e": "add", "parameters": {"a": ')
    assert not may_come(guide, ord('"'))

    guide = made(LLAMA3, words)
    write(guide, words, '{"colour": "red"}')
    assert guide.allowed_tokens() is None


def test_calls_without_end_marks_end_with_their_json() -> None:
    """Mistral: another call may follow, or the end."""
    words = Words()
    guide = made(MISTRAL, words)
    write(guide, words, '[TOOL_CALLS]add[ARGS]{"a": 1}')
    assert guide.allowed_tokens() is None
    write(guide, words, "[TOOL_CALLS]now[ARGS]{")
    assert not may_come(guide, ord('"'))
    write(guide, words, "}")


def test_a_call_that_begins_with_its_function_is_held_too() -> None:
    """Qwen3-Coder leaves the first marker out now and then; the name then follows directly."""
    words = Words()
    guide = made(FORMATS["qwen3_coder"], words)
    write(guide, words, "<function=add>\n<parameter=a>\n17\n</parameter>\n</function>\n</tool_call>")
    assert guide.allowed_tokens() is None


@pytest.mark.parametrize("choice", ["required", "add"])
def test_a_forced_call_is_held_from_the_first_token(choice: str) -> None:
    """The reply can't end before it, and ends behind it."""
    words = Words()
    guide = made(HERMES, words, tool_choice=choice, parallel_calls=False)
    assert not may_come(guide, 0)
    assert not may_come(guide, ord("H"))
    write(guide, words, f"<think>Well.</think>\n<tool_call>{CALL}")
    assert may_come(guide, 0)


def test_with_none_no_call_can_be_begun() -> None:
    """Text that only looks like one is free."""
    words = Words()
    guide = made(HERMES, words, tool_choice="none")
    write(guide, words, "Hello <tool_call")
    assert not may_come(guide, ord(">"))
    assert may_come(guide, 0)


def test_nothing_to_hold_to_is_no_guide() -> None:
    """Without tools, or without a format for calls."""
    backend: Any = Words()
    guides = GuideFactory(TokenMasks(backend, ()))

    assert guides.guide(HERMES, (), GenerationOptions()) is None
    assert guides.guide(FORMATS["plain"], TOOLS, GenerationOptions()) is None


@pytest.mark.parametrize(
    ("spec", "tools", "options", "told"),
    [
        (HERMES, TOOLS, {"tool_choice": "multiply"}, "no tool of this name"),
        (HERMES, (), {"tool_choice": "required"}, "no tools are offered"),
        (FORMATS["plain"], TOOLS, {"tool_choice": "required"}, "no grammar is known"),
        (LLAMA3, TOOLS, {"response_format": {"type": "object"}}, "can't be told from"),
    ],
)
def test_what_can_not_be_had_is_an_error(
    spec: FormatSpec, tools: tuple[ToolSpec, ...], options: dict[str, Any], told: str
) -> None:
    """It says why, and never falls back in silence."""
    with pytest.raises(ConstraintError, match=told):
        made(spec, Words(), tools, **options)


def test_a_token_that_is_not_allowed_is_an_error() -> None:
    """A backend that samples past its mask is at fault."""
    words = Words()
    guide = made(HERMES, words, tool_choice="required", parallel_calls=False)
    with pytest.raises(ConstraintError, match="can't be followed"):
        guide.accept(ord("x"), b"x")
    guide = made(HERMES, words, parallel_calls=False)
    write(guide, words, f"<tool_call>{CALL}")
    with pytest.raises(ConstraintError, match="after the end"):
        guide.accept(ord("x"), b"x")


def test_an_answer_that_is_checked_is_held_to_what_a_grammar_can_say() -> None:
    """The rest, an error where nobody checks, is left to whoever asked."""
    words = Words()
    asked = {"response_format": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}
    with pytest.raises(SchemaError, match="uniqueItems"):
        made(HERMES, words, (), **asked)

    guide = made(HERMES, words, (), response_checked=True, **asked)

    write(guide, words, '["a", "a"')
    assert not may_come(guide, ord("}"))


def test_a_checked_answer_beside_calls_without_markers_is_free() -> None:
    """Nobody could tell one from the other before it ends; the check tells."""
    words = Words()
    guide = made(LLAMA3, words, response_format={"type": "integer"}, response_checked=True)

    assert guide.allowed_tokens() is None


def test_a_checked_answer_of_a_schema_that_no_value_fits_is_an_error() -> None:
    """No check would ever be content."""
    with pytest.raises(SchemaError, match="lets no value through"):
        made(HERMES, Words(), (), response_format={"type": "integer", "enum": ["a"]}, response_checked=True)


def test_a_checked_answer_whose_schema_is_too_large_may_be_any_value() -> None:
    """Not only an object, which arguments would have to be."""
    pairs = [{"anyOf": [{"minItems": number}, {"maxItems": number}]} for number in range(30)]
    large, words = {"type": "array", "allOf": pairs}, Words()

    write(made(HERMES, words, (), response_format=large, response_checked=True), words, "[1]")
