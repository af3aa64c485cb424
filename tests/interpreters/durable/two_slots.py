"""A host in the process that counts what is at work there."""

from __future__ import annotations

import asyncio
from typing import Any

from interpreters.durable.model_hosts.hosts import ModelHost
from interpreters.testing.fakes import FunctionModel


class Host:
    """A host with two slots that counts how many requests it has at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.named = ModelHost(name, FunctionModel(self.answer), slots=2)
        self.now = self.most = 0

    async def answer(self, _request: Any) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.5)
        self.now -= 1
        return self.name
