"""``benchmarks/tau2.py``: its scripts and its tokenizer. The benchmark itself runs in CI (``benchmarks/once.py``)."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from hypothesis import given, strategies as st

from benchmarks import tau2, tau2_tasks
from benchmarks.tau2_tasks import MissingDataError, Records, read_domains
from cognition.values.counts import most_tokens

DATABASE = {
    "users": {"data": {"ada": {"id": "ada_1", "city": "Graz"}, "bob": {"id": "bob_2", "city": "Graz"}}},
    "orders": [{"id": "W1", "user": "ada_1", "lines": [{"sku": "plum"}]}],
}


def test_without_the_data_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tau2_tasks, "find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["tau2.py"])

    assert tau2.main() == 2
    assert "pip install --no-deps 'inspect-evals>=0.28,<0.29'" in capsys.readouterr().err
    with pytest.raises(MissingDataError):
        read_domains()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("inspect_evals") is None, reason="python benchmarks/tau2.py --install gets the data")
def test_there_are_281_tasks_whose_calls_are_of_offered_tools() -> None:
    domains = read_domains()

    assert {domain.name: len(domain.tasks) for domain in domains} == {
        "airline": 50,
        "retail": 114,
        "banking": 97,
        "telecom": 20,
    }
    for domain in domains:
        tools = {tool.name: tool.parameters["properties"].keys() for tool in domain.tools}
        calls = [call for task in domain.tasks for turn in task.turns for call in turn.calls]
        assert all(call.arguments.keys() <= tools[call.name] for call in calls)


def test_a_call_returns_the_records_that_its_arguments_name() -> None:
    records = Records(DATABASE)

    assert records.found_by({"id": "bob_2", "city": "Graz"}) == '[{"id": "bob_2", "city": "Graz"}]'
    assert records.found_by({"arguments": '{"user": "ada_1", "sku": "plum"}'}).startswith('[{"id": "W1"')
    assert records.found_by({"id": "nobody"}) == '{"done": true, "id": "nobody"}'


@given(st.text(), st.text())
def test_the_tokenizer_gives_each_text_a_number_that_grows_with_it(text: str, more: str) -> None:
    """At most a token for each byte, and no more for two texts together than for each apart."""
    for vocabulary in (tau2.ENGLISH, tau2.DENSE):
        count = vocabulary.count(text)

        assert count <= most_tokens(text)
        assert count <= vocabulary.count(text + more) <= count + vocabulary.count(more)
