"""Names and ids that a wire format accepts. The mapping used for a request also decodes its reply.

Hosted APIs accept tool names of ``[a-zA-Z0-9_-]{1,64}``. A name with a dot, such as ``mcp.server.tool``, becomes
``mcp_server_tool``, or ``mcp_server_tool-2`` if another tool already has that name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

from cognition.steps.requests import ModelRequest
from cognition.values.messages import AssistantMessage
from cognition.wire._quirks import Quirks

WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
LONGEST_ID = 40
"""Characters of an id: the limit of OpenAI's chat completions."""
NINE = re.compile(r"[a-zA-Z0-9]{9}")
ANY_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST_ID}}}")


@frozen
class Names:
    """The names of a request's tools on the wire."""

    to_wire: Mapping[str, str]
    """Maps every tool name of the request to its wire name."""
    _back: Mapping[str, str] = field(init=False)

    @_back.default
    def _(self) -> dict[str, str]:
        return {wire: name for name, wire in self.to_wire.items()}

    @property
    def on_wire(self) -> frozenset[str]:
        """All wire names that a reply is expected to use."""
        return frozenset(self._back)

    def of_wire(self, wire: str) -> str:
        """Return the tool's own name; an unknown wire name stays unchanged."""
        return self._back.get(wire, wire)


def names_of(request: ModelRequest, quirks: Quirks) -> Names:
    """Return the names of the tools that a request offers, and of those that its messages call."""
    called = (call.name for one in request.messages if isinstance(one, AssistantMessage) for call in one.calls)
    wanted = dict.fromkeys([*(tool.name for tool in request.tools), *called])
    if quirks.any_names:
        return Names({name: name for name in wanted})
    made = {name: name for name in wanted if WIRE_NAME.fullmatch(name)}
    taken = set(made)
    for name in wanted:
        if name in made:
            continue
        plain = NOT_ALLOWED.sub("_", name)[:LONGEST_NAME] or "_"
        wire, number = plain, 1
        while wire in taken:
            number += 1
            wire = f"{plain[: LONGEST_NAME - len(str(number)) - 1]}-{number}"
        made[name] = wire
        taken.add(wire)
    return Names(made)


class Ids:
    """Maps each call id of a conversation to its wire id, in order: unchanged if the wire format accepts it."""

    def __init__(self, quirks: Quirks) -> None:
        self._allowed = NINE if quirks.nine_ids else ANY_ID
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __getitem__(self, call_id: str) -> str:
        if call_id not in self._given:
            made, number = call_id, len(self._given)
            while made in self._taken or not self._allowed.fullmatch(made):
                made, number = f"call{number:05d}", number + 1
            self._given[call_id] = made
            self._taken.add(made)
        return self._given[call_id]
