"""Sessions in a worker thread or a worker process, driven by messages: see ``AgentHost``."""

from interpreters.agents.options import HandleOptions
from interpreters.hosting._agent_host import AgentHost
from interpreters.hosting._channels import Channel, PipeChannel, QueueChannel
from interpreters.hosting._errors import HostDiedError, HostError, HostTimeoutError
from interpreters.hosting._handle import AgentHandle
from interpreters.hosting._host import Host
from interpreters.hosting._protocol import ModelChoice, ProtocolError
from interpreters.hosting._turn_stream import ToolWait, TurnStream

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
