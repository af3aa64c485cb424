"""Content can't write markers, wherever a template puts it: in every place, of every family, with every vocabulary.

What is held: the markers among a prompt's tokens are those that stand in a prompt with harmless content, in the same
order, and the tokens spell what the template wrote, content and all.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from attrs import evolve
from hypothesis import example, given, settings, strategies as st

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    Message,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from runtime import load_model
from runtime.errors import TemplateError
from runtime.local.handles import LocalRuntime
from runtime.templates._protection import ITSELF, LEAD, MARK, MARKING, Shield, separate_marks
from runtime.templates.markers import Markers, control_texts
from runtime.templates.prompt_tokens import PromptTokenizer
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate
from tests.runtime import chat_templates
from tests.runtime.conftest import installed_or_skip
from tests.runtime.templates import vocabularies
from tests.runtime.tiny_models import write_model

# ------------------------------------------------------------------------------------------------- where content stands


def ask(*messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest(system, History(messages), tools, GenerationOptions())


def conversation(
    *,
    system: str = "Be kind.",
    user: str = "Read it.",
    note: str = "Go on.",
    said: str = "I will.",
    thought: str = "Hm.",
    call_id: str = "c1",
    name: str = "Read",
    arguments: dict[str, Any] | None = None,
    result_name: str = "Read",
    result: str = "ok",
    description: str = "Reads.",
    schema: dict[str, Any] | None = None,
) -> ModelRequest:
    call = ToolCall(call_id, name, {"path": "x"} if arguments is None else arguments)  # type: ignore[arg-type]  # a converter
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}} if schema is None else schema
    return ask(
        UserMessage("m1", user),
        AssistantMessage("m2", said, thought, (call,)),
        ToolMessage("m3", call_id, result_name, result),
        AssistantMessage("m4", said, thought),
        UserMessage("m5", note, "engine"),
        system=system,
        tools=(ToolSpec("Read", description, parameters),),
    )


def member(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"path": schema}, "required": ["path"]}


PLACES: dict[str, Callable[[str], ModelRequest]] = {
    "system prompt": lambda text: conversation(system=text),
    "user": lambda text: conversation(user=text),
    "note of the engine": lambda text: conversation(note=text),
    "reply": lambda text: conversation(said=text),
    "reasoning": lambda text: conversation(thought=text),
    "id of a call": lambda text: conversation(call_id=text),
    "name of a call": lambda text: conversation(name=text),
    "argument": lambda text: conversation(arguments={"path": text}),
    "argument's name": lambda text: conversation(arguments={text: 1}),
    "list in an argument": lambda text: conversation(arguments={"a": [{"b": [text, text]}]}),
    "name of a result": lambda text: conversation(result_name=text),
    "result": lambda text: conversation(result=text),
    "JSON in a result": lambda text: conversation(result=json.dumps({"a": text})),
    "description of a tool": lambda text: conversation(description=text),
    "description of a parameter": lambda text: conversation(schema=member(type="string", description=text)),
    "name of a parameter": lambda text: conversation(
        schema={"type": "object", "properties": {text: {"type": "string"}}, "required": [text]}
    ),
    "enum": lambda text: conversation(schema=member(enum=["x", text])),
    "default": lambda text: conversation(schema=member(type="string", default=text)),
    "pattern": lambda text: conversation(schema=member(type="string", pattern=text)),
    "title": lambda text: conversation(schema={**member(type="string"), "title": text}),
    "type": lambda text: conversation(schema=member(type=text)),
    "everywhere": lambda text: conversation(
        system=text, user=text, note=text, said=text, thought=text, call_id=text, name=text, arguments={text: text},
        result_name=text, result=text, description=text, schema=member(type="string", description=text),
    ),
}  # fmt: skip
"""A line more is a place more."""

HARMLESS = "zebra"

# ------------------------------------------------------------------------------------------------------------- families

QUOTES_OF_TOKENS = """\
{%- macro value(one) %}{% if one is string %}<|"|>{{ one }}<|"|>{% elif one is mapping %}{
{%- for key, item in one | items %}{{ key }}:{{ value(item) }}{{ ',' if not loop.last }}{% endfor %}}
{%- elif one is sequence %}[{% for item in one %}{{ value(item) }}{{ ',' if not loop.last }}{% endfor %}]
{%- else %}{{ one }}{% endif %}{% endmacro %}
{%- for tool in tools or [] %}<|tool>declaration:{{ tool.function.name }}{{ value(tool.function.parameters) }}
{{- '{description:' }}{{ value(tool.function.description) }}}<tool|>{% endfor %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|tool_response>response:{{ message.name }}{{ value(message.content) }}<tool_response|>
{%- else %}<|turn>{{ message.role }}
{% if message.reasoning_content %}<|channel>thought
{{ message.reasoning_content }}<channel|>{% endif %}{{ message.content | trim }}
{%- for call in message.tool_calls or [] %}<|tool_call>call:{{ call.function.name }}
{{- value(call.function.arguments) }}<tool_call|>{% endfor %}<turn|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|turn>model
{% endif %}"""
"""As Gemma 4 writes strings: between tokens that hold quotation marks."""

ELEMENTS = """\
{%- for tool in tools or [] %}<tool>{{ tool.function.name | e }} {{ tool.function.description | e }}
{%- for key in tool.function.parameters.properties %}<{{ key }}/>{% endfor %}</tool>{% endfor %}
{%- for message in messages %}]~b]{{ message.role }}
{{ message.content | trim }}
{%- for call in message.tool_calls or [] %}<minimax:tool_call><invoke name="{{ call.function.name }}">{{ call.id }}
{%- for key, item in call.function.arguments | items %}<{{ key }}>{{ item }}</{{ key }}>{% endfor %}</invoke>
{{- '</minimax:tool_call>' }}{% endfor %}[e~[
{% endfor %}{% if add_generation_prompt %}]~b]ai
{% endif %}"""
"""As MiniMax writes arguments: each in an element of its name. And tools escaped for HTML."""

ASCII = """\
{{- tools | tojson(ensure_ascii=True) if tools }}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content | tojson(ensure_ascii=True) }}
{{- message.reasoning_content }}{% for call in message.tool_calls or [] %}<|call|>{{ call | tojson(ensure_ascii=True) }}
{{- call.function.arguments }}{% endfor %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Everything as JSON in ASCII, and arguments as Python writes a value."""

MEETING = """\
{%- for tool in tools or [] %}{{ tool.function.name ~ tool.function.description }}{% endfor %}
{%- for message in messages %}<|{{ message.role | upper }}|>{{ message.reasoning_content ~ message.content | lower }}
{%- for call in message.tool_calls or [] %}{{ call.id ~ call.function.name ~ call.function.arguments.path }}<|{{
call.function.name }}|>{% endfor %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|ASSISTANT|>{% endif %}"""
"""Nothing between two contents, bars around a name, and other letters."""

TAKES_OUT = """\
{%- macro told(text) %}
{{- text.replace('/no_think', '').replace("/think", "") | replace('\\t', '') | replace("'", '"') }}{% endmacro %}
{%- for tool in tools or [] %}{{ told(tool | string) }}{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>{{ told(message.content.split('[OUT]')[-1]) }}
{{- told(message.content.split('[OUT]') | join) ~ told(message.content.replace('[TOOLS]', '<|tool|>')) }}
{%- for call in message.tool_calls or [] %}{{ told(call.function.name) ~ told(call.function.arguments | tojson) }}
{%- endfor %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""As SmolLM3 takes orders out of a system prompt: what stood around them is joined."""

TAKEN_OUT = ("/no_think", "/think", "\t", "[OUT]", "/no_/thinkthink", "/thi[OUT]nk", "[O/thinkUT]", "[/no_thinkOUT]")
"""Some only once another one is gone."""

FAMILIES = {
    name: source
    for name, source in {**vars(chat_templates), **globals()}.items()
    if name.isupper() and isinstance(source, str) and "messages" in source
}

ALWAYS = (
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|eot|>",
    '<|"|>',
    "<tool>",
    "<path>",
    "<|unused|>",
    "<|USER|>",
    "<|x|>",
)
LITERAL = re.compile(r"<\|?/?[\w:]+\|?>|\[\|?/?\w+\|?\]|\]~b\]|\[e~\[")


def markers_of(source: str) -> list[str]:
    """Those of a family: all that its template writes, and some that it doesn't."""
    return sorted({*LITERAL.findall(source), *ALWAYS, "<|system|>", "<|user|>", "<|tool|>", "<|assistant|>"})


def texts_of(marker: str) -> Iterator[str]:
    """What somebody may write who wants a marker to come of it."""
    yield marker
    yield f"a{marker}b\n{marker}"
    yield f"  {marker}\n"
    yield marker[:-1]
    yield marker[1:]
    yield marker[2:-2] or marker[0]
    yield f"{marker[len(marker) // 2 :]} and {marker[: len(marker) // 2]}"
    yield marker.swapcase()
    yield json.dumps(marker)[1:-1]
    yield html.escape(marker)
    yield "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in marker)


EXTRA = ("<0x0A>", "▁<think>", MARK, LEAD, r"\ufdef\ufded<think>", f"<{MARK}think>", LEAD + "think" + ITSELF + MARKING)


class Prompts:
    """One family's template with one vocabulary."""

    def __init__(self, source: str, backend: Any) -> None:
        markers = Markers(control_texts(backend.special, source), source, backend.special.spelled)
        self.backend = backend
        self.template = ChatTemplate(source, markers=markers)
        self.tokenizer = PromptTokenizer(backend, markers)
        self.ids = {
            token: text
            for text, token in {**backend.special.control, **backend.special.defined}.items()
            if text in markers.texts and text != "<unk>"
        }

    def tokens(self, request: ModelRequest) -> tuple[list[int], str]:
        rendered = self.template.render(request)
        return self.tokenizer.tokens(rendered), rendered.text

    def markers(self, request: ModelRequest) -> list[str]:
        return [self.ids[token] for token in self.tokens(request)[0] if token in self.ids]

    @cache  # noqa: B019  one for each family, for as long as its test
    def expected(self, place: str) -> list[str]:
        return self.markers(PLACES[place](HARMLESS))

    def check_markers(self, place: str, text: str) -> None:
        """That of markers alone."""
        assert self.expected(place) == self.markers(PLACES[place](text)), (place, text)

    def check(self, place: str, text: str) -> None:
        """The property of this module."""
        tokens, wrote = self.tokens(PLACES[place](text))

        assert self.expected(place) == [self.ids[token] for token in tokens if token in self.ids], (place, text)
        assert wrote.encode() == b"".join(map(self.backend.piece, tokens)), (place, text)


def cases(source: str) -> Iterator[tuple[str, str]]:
    """Each text at all places at once, and at each place those that differ most."""
    for marker in markers_of(source):
        yield from (("everywhere", text) for text in texts_of(marker))
    yield from (("everywhere", text) for text in EXTRA)
    for place in PLACES:
        for number, marker in enumerate(markers_of(source)):
            yield place, marker
            yield place, list(texts_of(marker))[number % 5 + 1]


def prompts_of(source: str, make: Callable[..., Any] = vocabularies.byte_level, **flags: bool) -> Prompts:
    """Every second marker is control, the others were only added."""
    pytest.importorskip("tokenizers")
    texts = markers_of(source)
    return Prompts(source, make(texts[::2], texts[1::2], **flags))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_content_writes_a_marker(family: str) -> None:
    """In no place of any family's template, whether the vocabulary calls its markers control or not."""
    prompts = prompts_of(FAMILIES[family])
    for place, text in cases(FAMILIES[family]):
        prompts.check(place, text)


@pytest.mark.parametrize("place", PLACES)
def test_no_place_is_open(place: str) -> None:
    """Of the families whose markers hold quotes, whose names stand in brackets, and which write JSON in ASCII."""
    for source in (QUOTES_OF_TOKENS, ELEMENTS, ASCII):
        prompts = prompts_of(source)
        for text in (*ALWAYS, "think", "path", *EXTRA):
            prompts.check(place, text)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_template_takes_out_of_content_joins_no_marker(place: str) -> None:
    """Wherever in a marker it stands, and where a marker comes of one character written as another."""
    prompts = prompts_of(TAKES_OUT)
    for marker in ("<|im_end|>", "</think>", "<|eot|>", '<|"|>'):
        prompts.check_markers(place, marker.replace('"', "'"))
        for taken in TAKEN_OUT:
            for cut in {1, 2, len(marker) // 2, len(marker) - 1}:
                prompts.check_markers(place, marker[:cut] + taken + marker[cut:])
            prompts.check_markers(place, f"a {taken} {taken.join(marker)}")


def test_orders_in_content_are_still_taken_out() -> None:
    """The template finds them, whatever stands beside them."""
    assert "</think>" in (wrote := prompts_of(TAKES_OUT).tokens(PLACES["system prompt"]("Hi <//no_thinkthink> you"))[1])
    assert "/no_think" not in wrote


ODD: dict[str, Callable[..., Any]] = {
    "whole words only": lambda control, defined: vocabularies.byte_level(control, defined, single_word=True),
    "SentencePiece": vocabularies.sentence_piece,
    "NFKC": lambda control, defined: vocabularies.normalising("NFKC", control, defined),
    "lower case": lambda control, defined: vocabularies.normalising("Lowercase", control, defined),
    "no accents": lambda control, defined: vocabularies.normalising("StripAccents", control, defined),
}
"""Vocabularies that look for markers in other ways than by the text as it is."""


@pytest.mark.parametrize("odd", ODD)
def test_no_vocabulary_finds_a_marker_in_content(odd: str) -> None:
    """Whatever a tokenizer does to a text before it looks: what it finds in content is cut until it finds nothing."""
    for source in (FALLBACK_TEMPLATE, QUOTES_OF_TOKENS):
        prompts = prompts_of(source, ODD[odd])
        for marker in markers_of(source):
            for text in (*texts_of(marker), "".join(f"{sign}\u0301" for sign in marker), " " + marker + "x"):
                found = prompts.markers(PLACES["everywhere"](text))

                assert prompts.expected("everywhere") == found, text


def test_bytes_can_not_be_written_by_their_names() -> None:
    """``<0x0A>`` in content is six characters, where a Unigram vocabulary would take it for a line end."""
    prompts = prompts_of(FALLBACK_TEMPLATE, vocabularies.sentence_piece)
    tokens, wrote = prompts.tokens(PLACES["user"]("a<0x0A>b <0x3C>"))

    assert "a<0x0A>b <0x3C>" in b"".join(map(prompts.backend.piece, tokens)).decode().replace(" ", " ")
    assert "a<0x0A>b <0x3C>" in wrote


def test_a_character_that_is_a_marker_to_the_vocabulary_is_refused() -> None:
    """Rather than given to the model as one: it fails closed, and says why."""
    pytest.importorskip("tokenizers")
    backend = vocabularies.normalising("NFKC", ["<|im_end|>"], ["(1)"])
    prompts = Prompts(FALLBACK_TEMPLATE, backend)

    with pytest.raises(TemplateError, match=r"no way to write U\+2474 but as a marker"):
        prompts.tokens(PLACES["user"]("5 \u2474"))


MARKERS = ("<a>", "<|b|>", '<|"|>', "<a><a>", "[[", "a>x")
SIGNS = st.lists(
    st.sampled_from([*MARKERS, *'<a>|b"[x \n', LEAD, MARKING, ITSELF, MARK, r"\ufdef", r"\ufded"]), max_size=6
)


class TestShield:
    @given(SIGNS.map("".join))
    @example(r"\ufdef\ufded")
    def test_without_the_marks_the_content_is_as_it_was(self, content: str) -> None:
        """However a template writes it."""
        marked = Shield(Markers(MARKERS)).text(content)

        assert separate_marks(marked)[0] == content
        for ascii_only in (True, False):
            written = separate_marks(json.dumps(marked, ensure_ascii=ascii_only))[0]
            assert json.dumps(content, ensure_ascii=ascii_only) == written
        assert separate_marks(html.escape(marked))[0] == html.escape(content)
        assert separate_marks(marked.strip())[0] == content.strip()

    @given(st.lists(st.tuples(st.booleans(), SIGNS.map("".join)), max_size=5), st.sampled_from([str, str.strip]))
    @settings(max_examples=300)
    def test_every_marker_that_holds_content_holds_a_mark(
        self, parts: list[tuple[bool, str]], trimmed: Callable[[str], str]
    ) -> None:
        """Contents and the template's own texts, one behind the other in any order."""
        parts = [(content, text if content else text.replace(LEAD, "").replace("ufdef", "")) for content, text in parts]
        source = " ".join(f"'{text}'" for content, text in parts if not content)
        shield = Shield(Markers(MARKERS, source))
        wrote, marked = separate_marks("".join(trimmed(shield.text(text)) if own else text for own, text in parts))
        own = [own for own, text in parts for _ in (trimmed(text) if own else text)]

        for marker in MARKERS:
            for found in re.finditer(f"(?={re.escape(marker)})", wrote):
                span = range(found.start(), found.start() + len(marker))
                visible = [place for place in span if own[place] and not wrote[place].isspace()]
                assert not visible or any(place in span for place in marked)

    @pytest.mark.parametrize(
        ("source", "old"),
        [
            ("{{ a.replace('/no_think', '') }}", "/no_think"),
            ('{{ a | replace( "/x", b) }}', "/x"),
            (r"{{ a.replace('it\'s', '') }}", "it's"),
            (r"{{ a.replace('\n', '') }}", "\n"),
            ("{{ a.replace('one', 'two') }}", "ONE"),
            ("{{ a.rsplit('[x]', 1)[0] ~ a.partition( '[y]' )[2] ~ a.removeprefix('[z]') }}", "[y]"),
        ],
    )
    def test_each_character_around_what_is_taken_out_has_a_mark(self, source: str, old: str) -> None:
        """Only in a content that holds it."""
        shield = Shield(Markers(("<|im_end|>",), source))

        assert shield.text(f"a {old}b") == f"{MARK}a {old}{MARK}b"
        assert shield.text("a b") == "a b"

    def test_a_template_that_takes_thousands_of_texts_out_holds_nobody_up(self) -> None:
        """Nor one whose texts have no end, or that writes thousands of characters otherwise."""
        many = "".join(
            f"{{{{ a.replace('{chr(0x4E00 + n)}', 'x') | replace('{'<' * (n % 300)}', b) }}}}" for n in range(2000)
        )
        for source in (many, "replace('" + "\\\\" * 50_000, "replace(" + " " * 100_000, "replace('a'," * 20_000):
            shield = Shield(Markers((f"<|{n}|>" for n in range(1000)), source))
            assert separate_marks(shield.text("<" * 5_000))[0] == "<" * 5_000

    @pytest.mark.parametrize(
        "texts", [["<" + "a" * 100_000 + ">"], [f"<{n:999}>" for n in range(1000)]], ids=["long", "many"]
    )
    def test_markers_beyond_all_vocabularies_are_refused(self, texts: list[str]) -> None:
        """All beginnings of a control token of 100,000 characters would take 5 GB."""
        with pytest.raises(TemplateError, match="than any model"):
            Markers(texts)

    def test_ordinary_content_is_left_alone(self) -> None:
        """It has no marks, so that a template sees it as it is."""
        for content in ("a < b > c |im_end| <tool call>", "", "  ", "def f(x):\n\treturn x\n", "5 > 3"):
            assert Shield(Markers(("<|im_end|>", "<tool_call>"))).text(content) == content

    def test_data_is_shielded_with_its_keys(self) -> None:
        """Nested data keeps its shape and its other values."""
        shielded = Shield(Markers(("<x>",))).data({"<x>": ["a<x>", 5, None, {"b": True}]})

        assert shielded == {f"<{MARK}x>": [f"a<{MARK}x>", 5, None, {"b": True}]}

    def test_the_words_of_a_schema_stay_as_they_are(self) -> None:
        """Templates look them up; a parameter of that name is content all the same."""
        shield = Shield(Markers(("<type>", "<string>"), "'<' '>'"))

        assert shield.schema({"type": "string", "properties": {"type": {"type": "string"}}, "required": ["type"]}) == {
            "type": "string",
            "properties": {f"{MARK}type": {"type": "string"}},
            "required": [f"{MARK}type"],
        }


# ------------------------------------------------------------------------------------------------------------ for real


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prompts]:
    """llama.cpp's own tokenizer, with the markers of Gemma 4."""
    installed_or_skip("llama")
    texts = markers_of(QUOTES_OF_TOKENS)
    path = tmp_path_factory.mktemp("tiny") / "quotes.gguf"
    write_model(path, template=QUOTES_OF_TOKENS, control=texts[::2], defined=texts[1::2])
    with load_model(path) as loaded:
        yield loaded._owner.call(lambda engine: Prompts(QUOTES_OF_TOKENS, engine._backend))


@pytest.mark.llama
@pytest.mark.parametrize("place", PLACES)
def test_llama_finds_no_marker_in_content(tiny: Prompts, place: str) -> None:
    """llama.cpp looks for added tokens even where it is told not to."""
    for marker in markers_of(QUOTES_OF_TOKENS):
        for text in list(texts_of(marker))[:: 1 if place == "everywhere" else 4]:
            tiny.check(place, text)


@pytest.fixture(scope="module")
def prompts(runtime: LocalRuntime) -> Prompts:
    return runtime._owner.call(lambda engine: Prompts(engine._template.source, engine._backend))


class TestShippedModel:
    """On both backends, as ``submit`` has it."""

    @pytest.mark.parametrize("place", PLACES)
    def test_no_content_writes_a_marker(self, prompts: Prompts, place: str) -> None:
        """Control tokens, and what the vocabulary adds without calling it that; of its many unused tokens one."""
        added = [text for text in prompts.ids.values() if "unused" not in text or text.endswith("_7|>")]
        for marker in added:
            for text in list(texts_of(marker))[:: 1 if place == "everywhere" else 4]:
                request = PLACES[place](text)
                tokens, wrote = prompts.tokens(request)

                assert prompts.expected(place) == [prompts.ids[one] for one in tokens if one in prompts.ids], text
                assert wrote.encode() == b"".join(map(prompts.backend.piece, tokens))

    def test_the_engine_does_the_same(self, runtime: LocalRuntime, prompts: Prompts) -> None:
        """Prompts that are evaluated are made so."""
        request = PLACES["everywhere"]("<tool_call>")

        assert runtime._owner.call(lambda engine: engine.prompt(request)) == prompts.tokens(request)[0]
        assert runtime.count_tokens(request) == len(prompts.tokens(request)[0])

    @pytest.mark.parametrize(
        "content", ["What is 17 * 23?", "naïve 😀\n\n  indented\ttabs", "<b>bold</b> [x] {y}", "> a", ""]
    )
    def test_ordinary_prompts_are_tokenised_as_a_whole(self, prompts: Prompts, content: str) -> None:
        """Without markers in the content the tokens are those of the rendered text, exactly."""
        tokens, wrote = prompts.tokens(PLACES["everywhere"](content or " "))

        assert prompts.backend.tokenize(wrote, special=True) == tokens

    def test_calls_in_history_are_written_with_markers(self, prompts: Prompts) -> None:
        """What the template writes around a call is the template's, whatever the call holds."""
        assert prompts.expected("argument").count("<tool_call>") == 1
        assert prompts.markers(PLACES["argument"]("<tool_call>")).count("<tool_call>") == 1


def test_an_own_word_of_the_switch_is_told_to_the_template() -> None:
    """The word that asks for no reasoning is ours, and reaches the template as it is."""
    source = FALLBACK_TEMPLATE + "{% if '/no_think' in messages[0].content %}OFF{% endif %}"
    request = evolve(ask(UserMessage("m1", "Hi"), system="Be brief. /no_think"))
    markers = Markers(("<|im_end|>", "<|im_start|>"), source)

    assert ChatTemplate(source, markers=markers).render(request).text.endswith("OFF")
