"""Keys are taken out of texts in every form that they may be written in, whole or in part."""

from __future__ import annotations

import html
import json
import logging
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings, strategies as st

from cognition import Failure
from runtime import Backend
from runtime.providers._credentials import LOGS, scrub, scrub_failure

BACKEND = Backend("ours", "https://example.com/v1", key_env="COGSTEP_SCRUBBED_KEY")
KEY = 'sk-Pq7+Zx/93=Lm&w"Rt<5vB8nKcY2'
keys = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=12, max_size=60)
FORMS = {
    "as it is": str,
    "URL": quote,
    "a part of a URL": lambda key: quote(key, safe=""),
    "a form": quote_plus,
    "small digits": lambda key: quote(key, safe="").replace("%2B", "%2b").replace("%2F", "%2f"),
    "JSON": lambda key: json.dumps(json.dumps(key)),
    "escapes": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    "HTML": html.escape,
    "digits": lambda key: key.encode().hex(),
    "large digits": lambda key: key.encode().hex().upper(),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "bearer": lambda key: b64encode(f"Bearer {key}".encode()).decode(),
    "basic": lambda key: b64encode(f"me:{key}".encode()).decode(),
    "behind a letter": lambda key: urlsafe_b64encode(f"x{key}".encode()).decode(),
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COGSTEP_SCRUBBED_KEY", KEY)


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_found_in_every_form(form: str) -> None:
    written = FORMS[form](KEY)
    told = scrub(f"The key {written} is wrong.", BACKEND)

    assert "[COGSTEP_SCRUBBED_KEY]" in told
    assert not any(written[at : at + 12] in told for at in range(len(written) - 12)), told
    assert told.startswith("The key ")
    assert told.endswith(" is wrong.")


@given(keys, st.sampled_from(sorted(FORMS)), st.integers(0, 40), st.integers(12, 40))
@settings(max_examples=40)
def test_no_part_of_a_key_stays(key: str, form: str, begin: int, length: int) -> None:
    """A text may have been cut in the middle of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COGSTEP_SCRUBBED_KEY", key)
        written = FORMS[form](key)[begin : begin + length]
        told = scrub(f"«{written}»", BACKEND)

    assert told[0] == "«"
    assert told[-1] == "»"
    if form == "as it is" and len(written) >= 12:
        assert written not in told


@pytest.mark.parametrize("short", ["", "none", "EMPTY"])
def test_a_placeholder_is_no_key(monkeypatch: pytest.MonkeyPatch, short: str) -> None:
    monkeypatch.setenv("COGSTEP_SCRUBBED_KEY", short)
    assert scrub("none or EMPTY", BACKEND) == "none or EMPTY"
    assert scrub(KEY, Backend("free", "http://127.0.0.1/v1")) == KEY


def test_a_short_key_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COGSTEP_SCRUBBED_KEY", "abc123")
    told = scrub_failure(Failure("abc123, abc12 and abc123abc123", code="abc123"), BACKEND)

    mark = "[COGSTEP_SCRUBBED_KEY]"
    assert (told.message, told.code) == (f"{mark}, abc12 and {mark}", mark)


def test_logs_have_no_key(caplog: pytest.LogCaptureFixture) -> None:
    """The library logs the heads of responses, in which a server may repeat it."""
    LOGS.add(BACKEND)
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpcore2.http11").debug("complete %r", [(b"X-Key", KEY.encode())])

    assert caplog.messages == ["complete [(b'X-Key', b'[COGSTEP_SCRUBBED_KEY]')]"]
