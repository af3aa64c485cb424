"""A request that can't be written becomes an error that says why."""

from __future__ import annotations

import pytest

from cognition import History, ModelRequest
from cognition.steps.config import GenerationOptions
from cognition.wire import _dialects as dialects
from cognition.wire._request_builder import UnsupportedRequestError


def test_json_that_is_nested_too_deeply_is_an_error_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep that is for the Python that runs it."""

    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(dialects, "ENCODERS", {"openai": fail})

    with pytest.raises(UnsupportedRequestError, match="nested too deeply to be sent"):
        dialects.encode("openai", ModelRequest("", History(), (), GenerationOptions()), model="m")
