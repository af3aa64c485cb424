"""``load_model(template=, format=)``: what a program says of a model's template and format counts, on every runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError
from cognition.parsing import FORMATS, FormatSpec
from runtime import ModelLoadError, load_model
from runtime.templates.override import NOTHING_CHOSEN, choose
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate
from tests.runtime.asking import QUESTION, ask

BEGUN = "{% if add_generation_prompt %}[assistant]{% endif %}"
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}" + BEGUN
"""It has no place for tools."""
OWN = FormatSpec("own", calls=FORMATS["hermes"].calls, stops=("[user]",))


@pytest.mark.real_model
@pytest.mark.parametrize("isolate", [False, True])
def test_a_model_is_loaded_with_the_template_and_the_format_that_are_given(backend_name: Any, isolate: bool) -> None:
    with load_model(backend=backend_name, isolate=isolate, template=PLAIN, format=OWN) as model:
        info, tokens = model.describe(), model.count_tokens(ask(QUESTION))
    with load_model(backend=backend_name, isolate=isolate) as model:
        own, usual = model.describe(), model.count_tokens(ask(QUESTION))

    assert info.format == OWN
    assert "tools" not in info.features
    assert any("no place for tools" in warning for warning in info.warnings)
    assert "tools" in own.features
    assert own.format.name == "hermes"
    assert tokens != usual


def test_the_template_is_its_text_or_stands_in_a_file_or_with_another_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(PLAIN)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "chat_template.jinja").write_text(PLAIN)

    for given in (PLAIN, file, str(file), tmp_path / "model"):
        assert choose(given, None, "").template == PLAIN
    assert choose(None, None, "") is NOTHING_CHOSEN


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"template": "no/such/file.jinja"}, ModelLoadError, "there is no file or directory"),
        ({"template": "{% if %}"}, ModelLoadError, "syntax error in line 1"),
        ({"template": 5}, ConfigError, "template must be"),
        ({"format": "hermez"}, ModelLoadError, "did you mean 'hermes'"),
        ({"format": 5}, ModelLoadError, "a FormatSpec or the name of one, not 5"),
    ],
)
@pytest.mark.real_model
def test_what_is_none_is_refused_in_plain_words(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        load_model(**options)


def test_a_directory_without_a_template_has_none_to_give(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ModelLoadError, match="template"):
        choose(tmp_path, None, "")


@pytest.mark.parametrize(
    ("source", "given", "features"),
    [
        (FALLBACK_TEMPLATE, "llama3", {"system", "tools"}),
        (FALLBACK_TEMPLATE, "plain", {"system"}),
        (FALLBACK_TEMPLATE, "hermes", {"system", "tools", "thinking"}),
        (PLAIN, "hermes", {"system", "thinking"}),
    ],
)
def test_a_given_format_says_what_can_be_read_and_the_template_what_is_told(
    source: str, given: str, features: set[str]
) -> None:
    make: Callable[..., ChatTemplate] = ChatTemplate
    template = make(source, format=FORMATS[given])

    assert template.format_spec() == FORMATS[given]
    assert set(template.features) == features
    assert all("recognised" not in warning for warning in template.warnings)
    template.close()
