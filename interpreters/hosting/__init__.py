"""Sessions in a worker thread or a worker process, driven by messages: see ``AgentHost``."""

from interpreters.agents.options import HandleOptions
from interpreters.hosting.agent_host import AgentHost
from interpreters.hosting.channels import Channel, PipeChannel, QueueChannel
from interpreters.hosting.errors import HostDiedError, HostError, HostTimeoutError
from interpreters.hosting.handle import AgentHandle
from interpreters.hosting.host import Host
from interpreters.hosting.jobs import ToolWait
from interpreters.hosting.messages import ModelChoice, ProtocolError
from interpreters.hosting.turns import TurnStream

__all__ = [
    "AgentHandle",
    "AgentHost",
    "Channel",
    "HandleOptions",
    "Host",
    "HostDiedError",
    "HostError",
    "HostTimeoutError",
    "ModelChoice",
    "PipeChannel",
    "ProtocolError",
    "QueueChannel",
    "ToolWait",
    "TurnStream",
]
