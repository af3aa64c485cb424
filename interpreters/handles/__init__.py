"""Sessions in a worker thread or a worker process, driven by messages: see ``AgentHost``."""

from interpreters.handles.agent_host import AgentHost
from interpreters.handles.channels import Channel, PipeChannel, QueueChannel
from interpreters.handles.errors import HostDiedError, HostError, HostTimeoutError
from interpreters.handles.handle import AgentHandle
from interpreters.handles.host import Host
from interpreters.handles.messages import ModelChoice, ProtocolError
from interpreters.handles.turns import ToolWait, TurnStream
from interpreters.options import HandleOptions

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
