"""A secret that the program names is hidden in any writing and any place, as tables; and shown again as it stood."""

from __future__ import annotations

import base64
import html
import json
import quopri
import shlex
from collections.abc import Callable
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, strategies as st

from cognition import ModelInterrupted, ModelReplied, ProposedCall, ToolFailed, ToolReturned, UserSpoke
from cognition.base.ids import EffectId
from interpreters.recording.redaction import Redaction
from interpreters.recording.redactor import Redactor
from interpreters.recording.secrets.encodings import PARTIAL, KnownSecrets

SECRETS = {
    "simple": "hunter2hunter",
    "marks": "p@ss/w+rd%&=x",
    "quotes": 'it\'s "so" `odd`\\n',
    "accents": "pässwörd-€uro-😀",
    "lines": "first line\nsecond\tline",
    "markup": "<a href='x'>&amp;</a>",
}

ID = EffectId("1.1.1")


def each(write: Callable[[str], str]) -> Callable[[str], str]:
    """A writing of each character for itself."""
    return lambda text: "".join(map(write, text))


def nested(depth: int, *, ascii: bool) -> Callable[[str], str]:
    def write(text: str) -> str:
        for _ in range(depth):
            text = json.dumps({"a": text}, ensure_ascii=ascii)
        return text

    return write


WRITINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent": lambda text: quote(text, safe=""),
    "percent, small": lambda text: (
        quote(text, safe="").replace("%2F", "%2f").replace("%3D", "%3d").replace("%C3", "%c3")
    ),
    "percent, but for slashes": quote,
    "percent, each": lambda text: "".join(f"%{code:02x}" for code in text.encode()),
    "percent, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent, thrice": lambda text: quote(quote(quote(text))),
    "form": quote_plus,
    "JSON": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON, ASCII": json.dumps,
    "JSON, slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON, each": each(lambda c: "".join(f"\\u{ord(u):04x}" for u in c) if ord(c) < 0x10000 else json.dumps(c)[1:-1]),
    "JSON, each, capitals": each(lambda c: f"\\u{ord(c):04X}" if ord(c) < 0x10000 else json.dumps(c)[1:-1]),
    "JSON in JSON": nested(2, ascii=False),
    "JSON in JSON in JSON": nested(3, ascii=True),
    "JSON, four deep": nested(4, ascii=True),
    "JSON in a URL": lambda text: quote(json.dumps({"a": text})),
    "a URL in JSON": lambda text: json.dumps(f"https://h/?x={quote(text)}").replace("/", "\\/"),
    "Python": repr,
    "Python, ASCII": ascii,
    "Python, bytes": lambda text: repr(text.encode()),
    "Python in JSON": lambda text: json.dumps({"error": f"KeyError({text!r})"}),
    "octal": lambda text: "".join(f"\\{code:03o}" for code in text.encode()),
    "hexadecimal escapes": lambda text: "".join(f"\\x{code:02X}" for code in text.encode()),
    "shell": shlex.quote,
    "shell, backslashes": each(lambda c: c if c.isalnum() or c == "\n" else f"\\{c}"),
    "SQL": lambda text: "'" + text.replace("'", "''") + "'",
    "CSV": lambda text: '"' + text.replace('"', '""') + '"',
    "HTML": html.escape,
    "XML": lambda text: escape(text, {"'": "&apos;", '"': "&quot;"}),
    "entities, decimal": each(lambda c: f"&#{ord(c)};"),
    "entities, hexadecimal": each(lambda c: f"&#x{ord(c):x};"),
    "entities, capitals": each(lambda c: f"&#X{ord(c):X};"),
    "HTML in JSON": lambda text: json.dumps(html.escape(text)),
    "JSON in HTML": lambda text: html.escape(json.dumps(text)),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, after one": lambda text: base64.b64encode(b"u" + text.encode()).decode(),
    "base64, after two": lambda text: base64.b64encode(b"u:" + text.encode()).decode(),
    "base64, in the middle": lambda text: base64.b64encode(b"user:" + text.encode() + b"; and more").decode(),
    "base64, for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64, for URLs, after one": lambda text: base64.urlsafe_b64encode(b"u" + text.encode()).decode(),
    "base64, in lines": lambda text: base64.encodebytes(b"x" * 50 + text.encode() + b"y" * 9).decode(),
    "base64 in JSON": lambda text: json.dumps(base64.b64encode(text.encode()).decode()).replace("/", "\\/"),
    "base64 in a URL": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal, capitals": lambda text: text.encode().hex().upper(),
    "hexadecimal, colons": lambda text: text.encode().hex(":"),
    "hexadecimal, spaces": lambda text: text.encode().hex(" "),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "quoted-printable, each": lambda text: "".join(f"={code:02X}" for code in text.encode()),
    "composed": lambda text: normalize("NFC", text),
    "decomposed": lambda text: normalize("NFD", text),
    "decomposed, percent": lambda text: quote(normalize("NFD", text)),
}

AROUND = ["{}", "x{}", "{}x", "7{}7", "_{}_", "-{}-", "say “{}”", "a={}&b=1", "{}\n", "({})", "é{}é"]


def core(text: str) -> str:
    """A part in the middle, which no writing of what stands around it can hold by chance."""
    return text[2:-2]


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("secret", SECRETS)
def test_it_is_hidden_in_each_writing_and_shown_as_it_stood(secret: str, writing: str) -> None:
    """Beside letters, digits, ``_`` and ``-`` as well; nothing is left of it, and showing gives what was hidden."""
    text = WRITINGS[writing](SECRETS[secret])
    for around in AROUND:
        redactor = Redactor(Redaction({"NAMED": SECRETS[secret]}, shapes=()))
        told = UserSpoke(around.replace("{}", text))
        hidden, redacted = redactor.hide(told)
        assert told == redactor.reveal(hidden)
        assert redacted, around
        assert core(text) not in hidden.text or len(core(text)) < 4
        assert KnownSecrets({"NAMED": SECRETS[secret]}).find_secrets(hidden.text) == []


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("secret", SECRETS)
def test_it_is_hidden_in_arguments_keys_and_errors(secret: str, writing: str) -> None:
    text = WRITINGS[writing](SECRETS[secret])
    for data in ({"a": text}, {text: 1}, {"a": [{"b": f"x{text}y"}]}, [text], text):
        for ascii in (True, False):
            for told in (
                ModelReplied(ID, calls=(ProposedCall("t", json.dumps(data, ensure_ascii=ascii)),)),
                ToolFailed(ID, f"Traceback\n  ValueError: {json.dumps(data, ensure_ascii=ascii)}"),
                ToolReturned(ID, json.dumps(data, ensure_ascii=ascii)),
            ):
                redactor = Redactor(Redaction({"NAMED": SECRETS[secret]}, shapes=()))
                hidden, redacted = redactor.hide(told)
                assert told == redactor.reveal(hidden)
                assert redacted
                if isinstance(hidden, ModelReplied):
                    assert type(json.loads(hidden.calls[0].arguments_json)) is type(data)


@pytest.mark.parametrize("name", ["", "read", "x"])
def test_a_name_of_a_tool_that_there_is_not_is_a_text_like_any_other(name: str) -> None:
    redactor = Redactor(Redaction({"NAMED": "hunter2hunter"}))
    hidden, _ = redactor.hide(ModelReplied(ID, calls=(ProposedCall(f"{name}hunter2hunter", "{}"),)))

    assert f"{name}[redacted:NAMED]" == hidden.calls[0].name


@pytest.mark.parametrize("number", ["12345678", "3.14159", "-271828"])
def test_a_number_stays_json_where_it_is_hidden(number: str) -> None:
    """It stands there as a string, and comes back as the number that it was, inside of others too."""
    redactor = Redactor(Redaction({"PIN": number}, shapes=()))
    arguments = f'{{"pin": {number}, "list": [{number},{number}0, 1], "text": "{number}"}}'
    told = ModelReplied(ID, calls=(ProposedCall("t", arguments),))
    hidden, _ = redactor.hide(told)

    assert number not in hidden.calls[0].arguments_json
    assert [json.loads(hidden.calls[0].arguments_json)["list"][2]] == [1]
    assert told == redactor.reveal(hidden)
    forged = ModelReplied(ID, calls=(ProposedCall("t", '{"pin": "[redacted:PIN:n]"}'),))
    assert forged == redactor.reveal(redactor.hide(forged)[0])


@pytest.mark.parametrize(
    "writing", ["as it is", "percent", "JSON, ASCII", "entities, decimal", "base64", "hexadecimal"]
)
def test_what_a_cut_leaves_of_it_is_hidden_at_both_ends(writing: str) -> None:
    """From ``PARTIAL`` characters on, of an encoding from eight: a reply was cancelled within it, a result was cut."""
    secret = "pä/s+w0rd-Zx9Q"
    whole = WRITINGS[writing](secret).strip('"')
    least = PARTIAL if writing == "as it is" else 6 * PARTIAL + 6
    for cut in range(least, len(whole)):
        for told in (
            ModelInterrupted(ID, f"The password is {whole[:cut]}"),
            ToolReturned(ID, f"{whole[-cut:]} was the password"),
        ):
            redactor = Redactor(Redaction({"NAMED": secret}, shapes=()))
            hidden, redacted = redactor.hide(told)
            assert told == redactor.reveal(hidden)
            assert redacted, told
    for text in ("The pass", "or so"):
        assert Redactor(Redaction({"NAMED": secret}, shapes=())).hide(UserSpoke(text)) == (UserSpoke(text), ())


def test_a_secret_in_two_results_is_hidden_in_both() -> None:
    redactor = Redactor(Redaction({"NAMED": "hunter2hunter"}))
    first, second = (redactor.hide(ToolReturned(ID, text))[0] for text in ("It is hunter2", "hunter, they say"))

    assert (first.content.partition("[")[0], second.content.rpartition("]")[2]) == ("It is ", ", they say")


def test_writings_with_a_name_are_known_again_in_another_process() -> None:
    """What a recording holds of them needs the secret alone to be shown."""
    redaction = Redaction({"NAMED": SECRETS["marks"]}, shapes=())
    for writing in (
        "as it is",
        "percent",
        "form",
        "JSON",
        "HTML",
        "Python",
        "base64",
        "base64, for URLs",
        "hexadecimal",
    ):
        told = UserSpoke(f"x {WRITINGS[writing](SECRETS['marks'])} y")
        hidden, _ = Redactor(redaction).hide(told)
        again = Redactor(redaction)
        assert not again.lacks(hidden), writing
        assert told == again.reveal(hidden)


def test_nothing_is_hidden_that_only_looks_like_a_writing() -> None:
    redactor = Redactor(Redaction({"A": "secretvalue", "B": "correct horse", "C": "abc"}, shapes=()))
    for text in (
        "secret value",
        "%%%",
        "\\\\\\",
        "&&&;",
        "c2Vjcm",
        "correct house",
        "a%62d",
        "\\u00",
        "&#;",
        "=\n",
    ):
        assert redactor.hide(UserSpoke(text)) == (UserSpoke(text), ())


# ---------------------------------------------------------------------------------------------------------- properties

secrets = st.one_of(st.sampled_from(list(SECRETS.values())), st.text(min_size=4, max_size=20))
pieces = st.lists(
    st.one_of(
        st.sampled_from(list(WRITINGS)),
        st.text(max_size=6),
        st.sampled_from(
            ["%", "\\", "&", "\\u", "%2", "=\n", '"', "'", "\\\\", "[redacted:NAMED]", "[redacted:NAMED:n]", "\0"]
        ),
    ),
    max_size=5,
)


def written(secret: str, parts: list[str]) -> str:
    def one(part: str) -> str:
        try:
            return WRITINGS[part](secret) if part in WRITINGS else part
        except UnicodeEncodeError:  # half of a surrogate pair has no bytes
            return part

    return "".join(map(one, parts))


@given(secret=secrets, parts=pieces, data=st.data())
def test_what_is_shown_is_what_was_hidden_for_any_text_and_any_cut(secret: str, parts: list[str], data: Any) -> None:
    text = written(secret, parts)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    redactor = Redactor(Redaction({"NAMED": secret}))
    for one in (text, text[start:end]):
        for told in (
            UserSpoke(one),
            ModelReplied(ID, calls=(ProposedCall("t", json.dumps({"a": one, one: [one]})), ProposedCall("t", one))),
        ):
            hidden, _ = redactor.hide(told)
            assert told == redactor.reveal(hidden)


@given(secret=secrets, parts=st.lists(pieces, max_size=3), data=st.data())
def test_nothing_is_found_in_texts_that_are_not_worth_looking_closer(
    secret: str, parts: list[list[str]], data: Any
) -> None:
    texts = [written(secret, part) for part in parts]
    cuts = [text[data.draw(st.integers(0, len(text))) :] for text in texts]
    writings = KnownSecrets({"NAMED": secret, "PIN": "1234"})
    for told in (texts, cuts, [text[::-1][: len(text) // 2] for text in texts], [secret[:4]], [secret[-4:]]):
        together = "\0".join(told)
        if not writings.may_be_in(together):
            assert not writings.has_unencoded(together)
            assert [writings.find_secrets(text) for text in told] == [[] for _ in told]


@given(secret=secrets, before=st.text("ab_- 1", max_size=5), writing=st.sampled_from(list(WRITINGS)))
def test_nothing_is_left_in_any_writing_beside_any_text(secret: str, before: str, writing: str) -> None:
    text = before + written(secret, [writing]) + before
    hidden = Redactor(Redaction({"NAMED": secret}, shapes=())).hide(UserSpoke(text))[0].text

    assert KnownSecrets({"NAMED": secret}).find_secrets(hidden.replace("[redacted:NAMED", "\0"), ends=False) == []


@pytest.mark.parametrize(
    "fragment", ["%25", "\\\\", "&amp;", "\\u0041", "hunter2", "hunt", "=3D", "''", "a\n", "aHVudGVyMmh1bnRlcg"]
)
def test_no_text_takes_long(fragment: str) -> None:
    """A hundred thousand characters of escapes: in quadratic time this would run into the timeout."""
    text = fragment * (100_000 // len(fragment))
    redactor = Redactor(Redaction({"NAMED": "hunter2hunter", "OTHER": "hunt/hunt hunt"}))
    told = UserSpoke(text)
    hidden, _ = redactor.hide(told)

    assert told == redactor.reveal(hidden)
