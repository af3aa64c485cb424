"""Backends as values: what can't be is refused where it is made, and a key is never part of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError, Usage
from cognition.wire import QUIRKS
from runtime.providers._connection import proxy_for
from runtime.providers.backends import BACKENDS, Backend, Backends, Price, Timeouts

HOSTS = ["example.com", "a.example.com", "notexample.com", "localhost", "127.0.0.1", "192.168.1.7", "10.0.0.1"]
ENTRIES = [
    "example.com",
    ".example.com",
    "*.example.com",
    "localhost",
    "127.0.0.1",
    "*",
    "",
    "other.org",
    "a.example.com",
]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Open AI"}, "use small letters"),
        ({"base_url": "models.example.com"}, "must begin with https://HOST"),
        ({"base_url": "https://u:p@h/v1"}, "holds a user name or password"),
        ({"base_url": "http://models.example.com/v1", "key_env": "KEY"}, "unencrypted"),
        ({"key_env": "sk-123"}, "must be the name of an environment variable"),
        ({"headers": {"Authorization": "Bearer x"}}, "carries a key"),
        ({"headers": {"content-length": "1"}}, "written by the connection"),
        ({"headers": {"x-a": "line\nend"}}, "can't be sent"),
        ({"dialect": "openia"}, "dialect"),
        ({"quirks": QUIRKS["anthropic"]}, "habits of 'anthropic'"),
        ({"timeouts": 3}, "timeouts"),
        ({"base_ulr": "x"}, "did you mean 'base_url'"),
    ],
)
def test_what_can_not_be_is_refused_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Backend(**{"name": "mine", "base_url": "https://models.example.com/v1", **given})


def test_a_key_may_stay_on_this_machine_or_be_allowed_to_leave_it() -> None:
    Backend("mine", "http://127.0.0.1:8080/v1", key_env="KEY")
    Backend("mine", "http://localhost:8080/v1", key_env="KEY")
    Backend("mine", "http://10.0.0.1:8080/v1", key_env="KEY", plain_http=True)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_no_timeout(seconds: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Timeouts(first=seconds)


def test_the_built_in_backends_are_reached_by_tls_or_are_this_machine() -> None:
    assert {"openai", "anthropic", "openrouter", "ollama", "llama-server", "deepseek", "groq", "mistral"} <= {
        *BACKENDS.names
    }
    for backend in BACKENDS.each:
        assert backend.base_url.startswith(("https://", "http://127.0.0.1")), backend.name
        assert bool(backend.key_env) or backend.base_url.startswith("http://127.0.0.1"), backend.name


def test_a_registry_is_a_value() -> None:
    changed = BACKENDS.setting("openai", base_url="https://proxy.example.com/v1")

    assert changed["openai"].base_url == "https://proxy.example.com/v1"
    assert BACKENDS["openai"].base_url == "https://api.openai.com/v1"
    with pytest.raises(ConfigError, match="did you mean 'openai'"):
        BACKENDS["opnai"]
    with pytest.raises(ConfigError, match="two backends are named 'openai'"):
        Backends((BACKENDS["openai"], BACKENDS["openai"]))


@given(*[st.integers(0, 10**9)] * 3, *[st.floats(0, 1000)] * 3)
def test_a_price_is_linear_in_tokens_and_cached_ones_are_no_dearer(
    fresh: int, cached: int, output: int, a: float, b: float, c: float
) -> None:
    price = Price(input=a, output=b, cached=min(a, c))
    usage = Usage(fresh + cached, output, cached)

    assert price.of(usage) == pytest.approx((fresh * a + cached * min(a, c) + output * b) / 1e6)
    assert price.of(usage) <= Price(input=a, output=b).of(usage) + 1e-9
    assert price.of(Usage(2 * (fresh + cached), 2 * output, 2 * cached)) == pytest.approx(2 * price.of(usage))


def test_the_first_price_that_fits_holds() -> None:
    prices = {"m-large": Price(3, 9), "m-*": Price(1, 2)}
    backend = Backend("mine", "https://models.example.com/v1", prices=prices)

    assert [backend.price_of(name) for name in ("m-large", "m-small", "n")] == [Price(3, 9), Price(1, 2), None]


@given(st.sampled_from(HOSTS), st.lists(st.sampled_from(ENTRIES), max_size=3), st.sampled_from(["http", "https"]))
def test_proxies_are_those_that_httpx_takes(host: str, passed: list[str], scheme: str) -> None:
    """Held beside httpx itself, for hosts and exceptions of every form that it knows."""
    httpx2 = pytest.importorskip("httpx2")
    with pytest.MonkeyPatch.context() as environment:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            environment.delenv(name, raising=False)
            environment.delenv(name.lower(), raising=False)
        environment.setenv("https_proxy", "http://secure.proxy:1")
        environment.setenv("all_proxy", "http://any.proxy:2")
        environment.setenv("no_proxy", ",".join(passed))
        known = httpx2._utils.get_environment_proxies()
        patterns = sorted((httpx2._utils.URLPattern(key), value) for key, value in known.items())
        url = httpx2.URL(f"{scheme}://{host}/v1")
        theirs = next((value for pattern, value in patterns if pattern.matches(url)), None)
        ours = proxy_for(scheme, host, None)

    assert ours == theirs


@pytest.mark.parametrize(
    ("entry", "port", "passes"), [("h:8080", 8080, True), ("h:8080", 80, False), ("h", 8080, True)]
)
def test_an_exception_may_name_a_port(monkeypatch: pytest.MonkeyPatch, entry: str, port: int, passes: bool) -> None:
    monkeypatch.setenv("http_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", entry)

    assert proxy_for("http", "h", port) == (None if passes else "http://proxy:3128")


def test_an_exception_may_be_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,[::1]")

    assert proxy_for("http", "10.1.2.3", None) is None
    assert proxy_for("http", "::1", None) is None
    assert proxy_for("http", "11.1.2.3", None) == "http://proxy:3128"
