"""A model that renders and counts for real, by any chat template and tokenizer, and says what it is told to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cognition import ModelRequest, Usage
from cognition.context.summaries import REQUEST_ID
from interpreters.testing.fakes import FunctionModel
from runtime.protocol.backend import Metadata, SpecialTokens
from runtime.templates.markers import Markers, control_texts
from runtime.templates.prompt_tokens import PromptTokenizer
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate
from tests.runtime import chat_templates

SHIPPED = Path(__file__).resolve().parents[2] / "runtime" / "small_model" / "mlx"

TEMPLATES: dict[str, str] = {
    **{name: text for name, text in vars(chat_templates).items() if name.isupper() and isinstance(text, str)},
    "FALLBACK": FALLBACK_TEMPLATE,
    "ESCAPES_RESULTS": """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'tool' %}{"output": {{ message.content | tojson }}}
{%- elif message.role == 'user' %}{{ message.content | trim }}
{%- else %}{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson(indent=2) }}}
</tool_call>{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
    "NEWEST_THINKS": """\
{%- set asked = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set asked.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == 'assistant' and loop.index0 > asked.last %}<think>
{{ message.reasoning_content or 'nothing to think about here' }}
</think>

{% endif %}{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
}
"""Every habit of the families that tests have a template for; one that writes results as JSON, as Llama's do; and one
that writes a block of thoughts, empty or not, around the replies behind the newest message alone, as Qwen3's do."""


class ShippedTokenizer:
    """The shipped model's own tokenizer, without the model: what ``PromptTokenizer`` needs of a backend."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        from runtime.mlx.backend import MlxVocabulary

        self._vocabulary = MlxVocabulary(Tokenizer.from_file(str(SHIPPED / "tokenizer.json")))
        self.metadata = Metadata("shipped", "mlx", "", "", 4096, 0, None)

    @property
    def special(self) -> SpecialTokens:
        return self._vocabulary.special

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return self._vocabulary.tokenize(text, special=special)

    def piece(self, token: int) -> bytes:
        return self._vocabulary.piece(token)


SUMMARY = "TASK: to look.\nPROGRESS: some was looked at: 3.14159265358979323846, 日本語.\nNEXT STEP: to look on."


@cache
def shipped_tokenizer() -> ShippedTokenizer:
    return ShippedTokenizer()


@cache
def counting_by(source: str) -> Callable[[ModelRequest], int]:
    """Counts a request's prompt as this template writes it."""
    backend: Any = shipped_tokenizer()
    markers = Markers(control_texts(backend.special, source), source, backend.special.spelled)
    template = ChatTemplate(source, markers=markers, apart=False)
    tokens = PromptTokenizer(backend, markers).tokens
    return lambda request: len(tokens(template.render(request)))


class TemplatedModel(FunctionModel):
    """Counts by ``count``, and reports the true size of each prompt; ``say`` yields the pieces of each reply.

    It counts no texts, so that sessions estimate sizes.
    """

    def __init__(
        self,
        count: Callable[[ModelRequest], int],
        say: Callable[[ModelRequest], Iterator[Any]],
        *,
        context_tokens: int = 4096,
    ) -> None:
        def answer(request: ModelRequest) -> Iterator[Any]:
            size = count(request)
            if request.messages[-1].id == REQUEST_ID:
                self.summaries.append((request, size))
                yield SUMMARY
            else:
                self.sizes.append(size)
                yield from say(request)
            yield Usage(input_tokens=size, output_tokens=10)

        super().__init__(answer, context_tokens=context_tokens, name="templated")
        self.sizes: list[int] = []
        """Of the prompts that were asked for, in order, but for those of summaries."""
        self.summaries: list[tuple[ModelRequest, int]] = []
        """The requests for summaries, with their sizes."""
        self._count = count

    def count_tokens(self, request: ModelRequest) -> int:
        return self._count(request)


@cache
def _content_tokens() -> Callable[[str], list[int]]:
    backend: Any = shipped_tokenizer()
    return PromptTokenizer(
        backend, Markers(control_texts(backend.special, ""), "", backend.special.spelled)
    ).content_tokens


def count_texts(texts: Sequence[str]) -> list[int]:
    """How many tokens each text has as content, by the shipped model's tokenizer."""
    tokens = _content_tokens()
    return [len(tokens(text)) for text in texts]


class CountingModel(TemplatedModel):
    """The same, of which ``texts`` counts the bare texts."""

    texts: Callable[[Sequence[str]], Any] = staticmethod(count_texts)

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        counts: Sequence[int] = self.texts(texts)
        return counts
