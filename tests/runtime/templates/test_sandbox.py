"""Templates of strangers run to their end or are stopped, and make no more than a context holds."""

import pytest

from runtime.errors import TemplateError
from runtime.templates.template import ChatTemplate

ENDLESS = {
    "loops in loops": "{% for a in range(999) %}{% for b in range(999) %}x{% endfor %}{% endfor %}",
    "a loop that pays nothing out": "{% for a in range(999) %}{% for b in range(999) if 0 %}{% endfor %}{% endfor %}",
    "a macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}"
    "{{ m(30) }}",
    "a macro that calls itself for ever": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a list that a loop fills": "{% set n = namespace(l=[1]) %}{% for a in n.l %}{{ n.l.append(1) or '' }}{% endfor %}",
    "filters of filters": "{% for a in range(999) %}{% for b in 'x' * 999 %}{{ a | string }}{% endfor %}{% endfor %}",
}

HUGE = {
    "a text times a number": "{{ 'x' * 999999999 }}",
    "a number times a list": "{{ 999999999 * [1] }}",
    "a power": "{{ 9 ** 999999999 }}",
    "a power of powers": "{% set x = 9 ** 99999 %}{% set y = x ** 99999 %}{{ y }}",
    "a text joined to itself": "{% set n = namespace(s='xxxxxxxxxx') %}"
    "{% for a in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "a text added to itself": "{% set n = namespace(s='xxxxxxxxxx') %}"
    "{% for a in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "a replacement": "{{ ('x' * 9999).replace('x', 'y' * 9999) }}",
    "the same as a filter": "{{ ('x' * 9999) | replace('x', 'y' * 9999) }}",
    "a padded text": "{{ 'x'.ljust(999999999) }}",
    "a wide field": "{{ '%999999999d' % 1 }}",
    "a wide field by name": "{{ '{:999999999}'.format(1) }}",
    "a wide field as a filter": "{{ '%999999999d' | format(1) }}",
    "a centred text": "{{ 'x' | center(999999999) }}",
    "indented JSON": "{{ [1] | tojson(indent=999999999) }}",
    "much output": "{% set x = 'x' * 9999 %}{% for a in range(999) %}{{ x }}{% endfor %}",
    "a join": "{{ ('x' * 9999).join(['y'] * 9999) }}",
    "the same join as a filter": "{{ (['y'] * 9999) | join('x' * 9999) }}",
}


@pytest.mark.parametrize("source", [*ENDLESS.values(), *HUGE.values()], ids=[*ENDLESS, *HUGE])
def test_a_template_without_end_is_stopped(source: str) -> None:
    """The work is counted in steps and the texts are measured before they are made, so this is soon told."""
    with pytest.raises(TemplateError, match="was stopped"):
        ChatTemplate(source, steps=20_000, size=1_000_000).apply([], None)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ ';' if loop.last }}{% endfor %}",
            "1/22/2;",
        ),
        ("{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ m.content }}{% endfor %}", "a"),
        ("{{ messages | map(attribute='role') | tojson }}", '["user", "assistant"]'),
        ("{% set made = [] %}{% set _ = made.append(1) %}{{ made }}{{ made.pop() }}", "[1]1"),
        ("{{ 'a' * 3 ~ (1 + 1) }}", "aaa2"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}{{ m('b') }}", "<a><b>"),
        ("{{ '%05d' % 7 }}{{ 'a,b'.split(',') | join('+') }}", "00007a+b"),
    ],
)
def test_what_templates_usually_do_is_left_alone(source: str, expected: str) -> None:
    """Counting changes nothing of what a template writes."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

    assert expected == ChatTemplate(source).apply(messages, None)


@pytest.mark.parametrize("source", ["{{ messages.append(1) }}", "{{ messages[0].parts.append(1) }}"])
def test_what_a_template_is_given_stays_as_it_is(source: str) -> None:
    """Only lists of its own making can grow."""
    with pytest.raises(TemplateError, match="refuses"):
        ChatTemplate(source).apply([{"role": "user", "content": "a", "parts": []}], None)
