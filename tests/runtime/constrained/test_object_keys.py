"""No key is given twice in one object, in any format, where a schema leaves keys open."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from attrs import evolve

from cognition import GenerationOptions, ToolSpec
from cognition.parsing import FORMATS, HERMES, FormatSpec, parse_reply
from cognition.parsing.formats import DEEPSEEK_V4, GEMMA4, QWEN3_CODER
from cognition.parsing.typed_values import types_of
from tests.runtime.constrained.vocabularies import Words

pytest.importorskip("llguidance")
from runtime.constrained._object_keys import KeyWatch
from runtime.constrained.guide import Guide, GuideFactory
from runtime.constrained.masks import TokenMasks
from runtime.errors import ConstraintError

FLAG: dict[str, Any] = {"type": "boolean"}
OPEN = {"type": "object", "additionalProperties": FLAG}
TOOLS = (
    ToolSpec("open", "", OPEN),
    ToolSpec("within", "", {"type": "object", "properties": {"m": OPEN, "a": FLAG}, "required": ["m"]}),
    ToolSpec("list", "", {"type": "object", "properties": {"l": {"type": "array", "items": OPEN}}, "required": ["l"]}),
    ToolSpec("any", "", {"type": "object"}),
)
CALLING = [spec for spec in FORMATS.values() if spec.calls is not None]
CLOSING = frozenset(b"\"}],<>()/'|:")
LETTERS = frozenset(b'ab,{"<|')


def guides(words: Words) -> GuideFactory:
    backend: Any = words
    return GuideFactory(TokenMasks(backend, ()))


def made(spec: FormatSpec, words: Words, tools: tuple[ToolSpec, ...], **options: Any) -> Guide:
    guide = guides(words).guide(spec, tools, GenerationOptions(**options))
    assert guide is not None
    return guide


def written(guide: Guide, words: Words, random: Random, limit: int = 600) -> str | None:
    """A reply of tokens that the guide lets through, with few letters, so that keys often meet again."""
    made = b""
    while len(made) < limit:
        mask = guide.allowed_tokens()
        assert mask is not None
        allowed = [token for token in range(words.vocabulary) if mask[token // 8] >> token % 8 & 1]
        assert allowed, made
        closing = random.random() < (0.3 if len(made) < 200 else 0.8)  # any value may be nested without end
        liked = [token for token in allowed if token in (CLOSING if closing else LETTERS)]
        liked += [token for token in allowed if token > 255]
        if 0 in allowed and random.random() < 0.4:
            return made.decode("utf-8", "replace")
        plain = [token for token in allowed if 32 <= token < 127]
        token = random.choice(liked or plain or allowed)
        if token == 0:
            return made.decode("utf-8", "replace")
        if guide.accept(token, words.piece(token)):
            made += words.piece(token)
    return None


def silent(spec: FormatSpec) -> FormatSpec:
    """Without reasoning, which random bytes would hardly ever end."""
    return spec if spec.reasoning is None or spec.prompted else evolve(spec, reasoning=None)


@pytest.mark.behaviour("S13i")
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_no_key_is_given_twice(spec: FormatSpec, tool: ToolSpec) -> None:
    """Of a call that is forced, by tokens of one sign and by some that end a key and go on."""
    spec, random = silent(spec), Random(f"{spec.name} {tool.name}")
    words = Words('":', '": ', 'a"', 'b": true', '<|"|>', "a:", "a=", "':", "a': True")
    maker, whole = guides(words), 0
    for _ in range(40):
        guide = maker.guide(spec, (tool,), GenerationOptions(tool_choice="required"))
        assert guide is not None
        text = written(guide, words, random)
        if text is None:
            continue
        whole += 1
        if whole == 3:
            break
        read = parse_reply(spec, text, tools=(tool,))
        assert read.malformed == (), text
        assert read.tool_calls, text
    assert whole, "nothing that was written ended"


def goes(guide: Guide, words: Words, text: str) -> str:
    """What is left of a text where the guide no longer goes on by its signs."""
    signs = text.encode()
    for place, sign in enumerate(signs):
        mask = guide.allowed_tokens()
        if mask is not None and not mask[sign // 8] >> sign % 8 & 1:
            return signs[place:].decode()
        if not guide.accept(sign, words.piece(sign)):
            mask = guide.allowed_tokens()
            assert mask is not None
            assert not mask[sign // 8] >> sign % 8 & 1
            return signs[place:].decode()
    return ""


@pytest.mark.behaviour("S13i")
@pytest.mark.parametrize(
    ("call", "left"),
    [
        ('{"name": "open", "arguments": {"a": true, "a": true}}', '": true}}'),
        ('{"name": "open", "arguments": {"a": true, "ab": true, "b": true}}', ""),
        ('{"name": "any", "arguments": {"a": {"a": "{a:1,a:2}"}, "b": [{"a": 1}, {"a": 1}]}}', ""),
        ('{"name": "any", "arguments": {"a": {"a\\"": 1, "a\\"": 1}}}', '": 1}}}'),
        ('{"name": "any", "arguments": {"a\\\\": 1, "a\\"": "a", "\\"a": 2}}', ""),
    ],
)
def test_only_a_key_of_the_same_object_is_refused(call: str, left: str) -> None:
    """Not one of another object, nor one that goes on, nor what stands in a text; in a call that nobody forced too."""
    words = Words()
    assert goes(made(HERMES, words, TOOLS, tool_choice="required"), words, f"<tool_call>\n{call}") == left
    assert goes(made(HERMES, words, TOOLS), words, f'I say {{"a": 1, "a": 2}}. <tool_call>\n{call}') == left


def test_what_a_model_thinks_of_keys_is_its_own() -> None:
    """Reasoning before a forced call is not looked at."""
    words = Words()
    guide = made(HERMES, words, TOOLS, tool_choice="required")
    thought = '<think>{"a": 1, "a": 2}</think>\n<tool_call>\n'
    assert goes(guide, words, thought + '{"name": "open", "arguments": {"a": true}}') == ""


def test_gemma_repeats_no_key_in_a_map() -> None:
    """Where keys are words without quotes."""
    words = Words(special=('<|"|>',))
    guide = made(GEMMA4, words, TOOLS, tool_choice="open")
    assert goes(guide, words, "<|tool_call>call:open{a:true,a") == ""
    assert goes(guide, words, ":") == ":"
    assert goes(guide, words, "b:true}") == ""


def test_an_answer_repeats_no_key() -> None:
    """An answer that is held to a schema is an object like any other."""
    words = Words()
    guide = made(HERMES, words, (), response_format=json.dumps(OPEN))
    assert goes(guide, words, '{"a": true, "a": true}') == '": true}'


def lead_of(spec: FormatSpec) -> str:
    """What ends the marker that the prompt has begun, where it has begun one."""
    rests = (marker.removeprefix(spec.prompted) for marker in spec.dropped if spec.prompted)
    return next(filter(None, rests), "")


@pytest.mark.behaviour("S13i")
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["alone", "beside tools"])
@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_an_answer_repeats_no_key_in_any_format(spec: FormatSpec, tools: tuple[ToolSpec, ...]) -> None:
    """Nor is a key of an object within it taken for one of the object around, be it that it looks like a call."""
    spec, words = silent(spec), Words()
    lead = lead_of(spec)
    bare = spec.calls is not None and not (spec.calls.start or spec.calls.section_start)
    if tools and bare:
        with pytest.raises(ConstraintError, match="beside tools"):
            made(spec, words, tools, response_format="{}")
        return
    for first in ("a", "name"):
        guide = made(spec, words, tools, response_format=json.dumps({"type": "object"}))
        text = f'{lead}{{"{first}": "x", "{{": {{"{first}": "[", "b": 1}}, "b": "c", "{first}": 2}}'
        assert goes(guide, words, text) == '": 2}'


@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_free_text_is_left_alone(spec: FormatSpec) -> None:
    """Where no tool may be called, an object in a text is the model's own, and so are keys in code."""
    spec, words = silent(spec), Words()
    lead = lead_of(spec)
    guide = made(spec, words, TOOLS, tool_choice="none")
    assert goes(guide, words, f'{lead}Not {{"a": 1, "a": 2}} but {{case: 1, case: 2}}.') == ""


@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_an_answer_is_read_back_as_text(spec: FormatSpec) -> None:
    """Where the prompt has begun a marker, it is finished before the answer."""
    spec, words, whole = silent(spec), Words(), 0
    for seed in range(20):
        guide = made(spec, words, (), response_format=json.dumps(OPEN))
        text = written(guide, words, Random(seed))
        if text is not None:
            whole += 1
            read = parse_reply(spec, text)
            assert (read.tool_calls, read.malformed) == ((), ()), text
            assert isinstance(json.loads(read.text), dict)
    assert whole


EITHER = {"type": "object", "properties": {"m": {"type": ["object", "string"]}}, "required": ["m"]}
SHARED = (
    ToolSpec("either", "", EITHER),
    ToolSpec("maps", "", {"type": "object", "additionalProperties": OPEN}),
    ToolSpec("object", "", {"type": "object", "properties": {"m": OPEN}, "required": ["m"]}),
    ToolSpec("text", "", {"type": "object", "properties": {"m": {"type": "string"}}, "required": ["m"]}),
)
"""Parameters of one name that are JSON in one tool and text in another, or whose type only the format's mark tells."""
TYPED = '<｜DSML｜tool_calls><｜DSML｜invoke name="{}"><｜DSML｜parameter name="m" string="{}">'
PLAIN = "<tool_call><function={}><parameter=m>"


@pytest.mark.behaviour("S13i")
@pytest.mark.parametrize(
    ("spec", "start", "twice"),
    [
        (DEEPSEEK_V4, TYPED.format("either", "false"), True),
        (DEEPSEEK_V4, TYPED.format("either", "true"), False),
        (DEEPSEEK_V4, TYPED.format("maps", "false"), True),
        (DEEPSEEK_V4, TYPED.format("text", "true"), False),
        (QWEN3_CODER, PLAIN.format("object"), True),
        (QWEN3_CODER, PLAIN.format("text"), False),
    ],
)
def test_a_parameter_is_followed_as_what_the_called_tool_takes(spec: FormatSpec, start: str, *, twice: bool) -> None:
    """JSON is told from text by the mark of its type where there is one, or else by the schema of that tool."""
    words, spec = Words(), silent(spec)
    guide = made(spec, words, SHARED, tool_choice="required")
    left = goes(guide, words, start + '{"a": true, "a": true}')
    assert left == ('": true}' if twice else "")


def test_what_came_twice_where_nothing_else_could_is_not_held_against_what_follows() -> None:
    """Else each token behind it would be refused, one by one."""
    watch = KeyWatch(QWEN3_CODER, types_of(SHARED), whole=True)
    assert watch.look(f'{PLAIN.format("object")}{{"a": true, "a'.encode())
    watch.take()
    assert not watch.look(b'"')
    watch.take()
    assert watch.look(b": true, ")


def test_a_grammar_that_leaves_no_other_key_goes_on() -> None:
    """What comes of it is no call, and told; nothing hangs."""
    words = Words()
    only = {"type": "object", "patternProperties": {"^a$": FLAG}, "additionalProperties": False}
    guide = made(HERMES, words, (ToolSpec("only", "", only),), tool_choice="required")
    text = written(guide, words, Random(1))
    assert text is None or len(parse_reply(HERMES, text).malformed) <= 1
