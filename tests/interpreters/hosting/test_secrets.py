"""Secrets behind a handle: what is kept out of the recording over there is said here, as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError
from interpreters import Redaction, fakes, replay, tool
from interpreters.hosting import AgentHost, HostError, _protocol as say
from interpreters.recording.redaction import SECRET_SHAPES, Found
from tests.interpreters.hosting.common import host_of, talk
from tests.interpreters.secrets import KEY

TICKET, NAMED = "T-123456", "hunter2"


@tool
def look_up(text: str) -> str:
    """Look up."""
    return f"found {text}"


@pytest.mark.parametrize(
    ("redact", "hidden", "kept"),
    [
        ({}, [KEY], [TICKET, NAMED]),
        ({"redact": Redaction(patterns={"ticket": r"T-\d{6}"})}, [KEY, TICKET], [NAMED]),
        ({"redact": Redaction({"DB": NAMED}, shapes=())}, [NAMED], [KEY, TICKET]),
        ({"redact": None}, [], [KEY, TICKET, NAMED]),
    ],
    ids=["usual", "patterns", "names", "none"],
)
def test_what_is_kept_out_is_said_as_to_an_agent(
    redact: dict[str, Any], hidden: list[str], kept: list[str], tmp_path: Path
) -> None:
    """The tool here gets the real text; the recording over there doesn't, not after a resume and not in a fork."""
    path, branch = tmp_path / "s.jsonl", tmp_path / "fork.jsonl"
    text = f"{KEY} {TICKET} {NAMED}"
    script = [fakes.call("look_up", text=text), "Done.", text, text]
    with AgentHost.in_thread(fakes.ScriptedModel(script)) as host:
        handle = host.open("s", [look_up], journal=path, **redact)
        assert [f"found {text}"] == [made.content for made in handle.run(text).calls]
        fork = handle.fork("fork", journal=branch)
        assert fork.run(text).text == text
        handle.dispose()
        assert host.open("s", [look_up], journal=path, resume=True, **redact).run(text).text == text

    for recording in (path, branch):
        written = recording.read_text()
        assert [secret for secret in hidden if secret in written] == []
        assert [secret for secret in kept if secret not in written] == []
        assert replay(recording).same


def test_what_can_not_cross_or_be_used_is_said_at_the_beginning() -> None:
    with host_of() as host:
        with pytest.raises(ConfigError, match="use patterns="):
            host.open("a", redact=Redaction(find=lambda text: [Found(0, 1)]))
        assert "a" not in host
    wrong = say.Init("1", "a", settings=say.Settings(redact=say.Secrets(patterns={"ticket": "("})))
    (refused,) = talk([say.line_of(wrong)], fakes.ScriptedModel([]))
    assert isinstance(refused, say.Refused)
    assert re.match("patterns: ticket: missing \\)", refused.message)


def test_what_is_usual_is_left_to_the_host() -> None:
    """A message without it has what the host's version knows of secrets; and no log shows those with names."""
    assert say.Secrets.of(Redaction()) == say.Secrets() == say.Settings().redact
    assert say.Secrets().redaction().shapes == SECRET_SHAPES
    assert NAMED not in repr(say.Secrets.of(Redaction({"DB": NAMED})))
    own = Redaction(patterns={"ticket": "T-"}, shapes=SECRET_SHAPES[:2])
    assert own.shapes == say.Secrets.of(own).redaction().shapes


def test_a_refusal_names_what_the_host_can_not_use() -> None:
    with host_of() as host, pytest.raises(HostError, match="window"):
        host.request(lambda identity: _without_check(identity), 60)


def _without_check(identity: str) -> Any:
    settings = say.Settings(window=1)
    object.__setattr__(settings, "window", 0)  # as another program may write it
    return say.Init(identity, "a", settings=settings)
