"""What the laws' kit says where something is missing, or there is nothing to say."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import cognition.testing.needs_hypothesis as needed
from cognition import AgentState, AssistantMessage, History, ModelReplied, UserSpoke
from cognition.testing._edge_laws import _encode_or_repr
from cognition.testing._permission_laws import _check_unaltered


def test_a_missing_hypothesis_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever imports what needs it is told what to install, as of a module that is not found."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cogstep\[testing\]'") as raised:
        runpy.run_path(str(needed.__file__))

    assert raised.value.name == "hypothesis"


def test_a_hypothesis_that_lacks_something_itself_says_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.delitem(sys.modules, "hypothesis")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        runpy.run_path(str(needed.__file__))


def test_what_can_not_be_recorded_is_compared_as_python_shows_it() -> None:
    """That it can't be, law L8 says."""
    assert _encode_or_repr({"a": object}) == repr({"a": object})
    assert _encode_or_repr(UserSpoke("Hi")) == _encode_or_repr(UserSpoke("Hi"))


def test_a_reply_that_leaves_no_message_has_altered_none() -> None:
    reply, history = ModelReplied("1.1.0", "Hi"), History((AssistantMessage("m1", "Hi"),))

    assert _check_unaltered(reply, history, history) is None
    assert _check_unaltered(reply, history, AgentState().history) is None
