"""What the tests of the sandboxes have in common."""

from __future__ import annotations

import pytest

from interpreters.toolbox.shell.sandbox import Choice
from tests.interpreters.toolbox.shell.sandboxes import needs


@pytest.fixture(params=["bubblewrap", "landlock"])
def wall(request: pytest.FixtureRequest) -> Choice:
    chosen: Choice = request.param
    needs(chosen)
    return chosen
