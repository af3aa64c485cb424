"""Sessions in a worker thread or a worker process, driven by messages: see ``AgentHost``."""

from interpreters.agents.options import HandleOptions as HandleOptions
from interpreters.hosting._agent_host import AgentHost as AgentHost
from interpreters.hosting._channels import Channel as Channel, PipeChannel as PipeChannel, QueueChannel as QueueChannel
from interpreters.hosting._errors import (
    HostDiedError as HostDiedError,
    HostError as HostError,
    HostTimeoutError as HostTimeoutError,
)
from interpreters.hosting._handle import AgentHandle as AgentHandle
from interpreters.hosting._host import Host as Host
from interpreters.hosting._protocol import ModelChoice as ModelChoice, ProtocolError as ProtocolError
from interpreters.hosting._turn_stream import ToolWait as ToolWait, TurnStream as TurnStream
