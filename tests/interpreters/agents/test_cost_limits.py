"""A limit on the cost needs models with known costs: an unknown cost counts as 0 and would never reach the limit."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cognition import ConfigError, Limits
from interpreters import Agent, fakes
from runtime import Price
from runtime.programs._claude import CLAUDE
from runtime.programs._codex import CODEX
from runtime.protocol.model import ModelInfo
from runtime.providers.backends import BACKENDS, Backend, remote_name

REFUSED = r"Limits\(cost=0\.5\) can't be kept: no price of the model 'large' is known.*prices=\{'large': Price\("
LIMITS = Limits(cost=0.5)


class Unpriced(fakes.FunctionModel):
    """A fake of a model behind a server whose prices are unknown."""

    def describe(self) -> ModelInfo:
        return evolve(super().describe(), name="large", priced=False)


def remote(spec: str, *backends: Backend) -> Any:
    pytest.importorskip("httpcore2", reason="the extra `remote` is not installed")
    from runtime.providers.remote import RemoteRuntime

    name = remote_name(spec, BACKENDS.adding(backends))
    assert name is not None
    return RemoteRuntime(name, ask=False)


SERVER = Backend("server", "https://models.example.com/v1")


@pytest.mark.parametrize(
    ("spec", "backend", "priced"),
    [
        ("http://127.0.0.1:1/v1|large", SERVER, False),
        ("https://models.example.com/v1|large", SERVER, False),
        ("server/large", SERVER, False),
        ("server/large", evolve(SERVER, prices={"la*": Price(3, 15)}), True),
        ("server/large", evolve(SERVER, prices={"large": Price()}), True),
        ("server/large", evolve(SERVER, prices={"small": Price()}), False),
        ("ollama/large", SERVER, True),
        ("llama-server/large", SERVER, True),
    ],
)
def test_a_remote_model_has_known_costs_if_it_has_a_price(spec: str, backend: Backend, priced: bool) -> None:
    """A URL says nothing about prices; ``Price()`` is free, as are the servers of local models."""
    with remote(spec, backend) as model:
        assert model.describe().priced == priced
        if priced:
            Agent(model, limits=LIMITS).close()
        else:
            with pytest.raises(ConfigError, match=REFUSED):
                Agent(model, limits=LIMITS)


def test_a_server_that_reports_costs_needs_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "key")
    with remote("openrouter/large") as model:
        assert model.describe().priced
        assert not any("price" in warning for warning in model.describe().warnings)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:1"])
def test_the_url_of_a_server_of_this_machine_brings_no_warning(host: str) -> None:
    """Its price is unknown, but rarely of interest; that of any other server is reported."""
    with remote(f"http://{host}/v1|large") as here, remote("https://models.example.com/v1|large") as there:
        assert not any("no price" in warning for warning in here.describe().warnings)
        assert any("no price" in warning for warning in there.describe().warnings)


def test_only_programs_that_report_costs_have_known_ones() -> None:
    assert (CLAUDE.reports_costs, CODEX.reports_costs) == (True, False)


def test_every_model_that_may_be_called_needs_a_price(tmp_path: Path) -> None:
    """The agent's own and all in ``models``; nothing is recorded by then."""
    priced, unpriced = fakes.FunctionModel(lambda request: "Yes."), Unpriced(lambda request: "Yes.")
    with pytest.raises(ConfigError, match=REFUSED):
        Agent(priced, models={"other": unpriced}, limits=LIMITS, journal=tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()
    with Agent(unpriced, limits=Limits(output_tokens=500)) as agent:
        assert agent.run("Hi").ok


def test_a_session_that_is_continued_or_forked_needs_prices_too(tmp_path: Path) -> None:
    """The limit is recorded, and the model may be another one."""
    priced, unpriced = fakes.FunctionModel(lambda request: "Yes."), Unpriced(lambda request: "Yes.")
    path = tmp_path / "session.jsonl"
    with Agent(priced, limits=LIMITS, journal=path) as agent:
        agent.run("Hi")
    with pytest.raises(ConfigError, match=REFUSED):
        Agent.resume(path, unpriced)
    with pytest.raises(ConfigError, match=REFUSED):
        Agent.fork(path, unpriced)
    with Agent.resume(path, priced) as agent:
        assert agent.run("And now?").ok


def test_a_limit_of_the_session_needs_prices_too() -> None:
    with pytest.raises(ConfigError, match=r"Limits\(session_cost=2\) can't be kept"):
        Agent(Unpriced(lambda request: "Hello."), limits=Limits(session_cost=2))
