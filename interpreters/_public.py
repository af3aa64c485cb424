"""The public names of ``interpreters``; see ``cognition.base.face``."""

from cognition.testing import ANY as ANY, LawViolation as LawViolation, explore as explore, laws as laws
from cognition.testing.strategies import states as states
from interpreters.agents.agent import (
    Agent as Agent,
)
from interpreters.agents.async_agent import (
    AsyncAgent as AsyncAgent,
)
from interpreters.agents.chat_messages import (
    ImportedMessages as ImportedMessages,
    MessagesError as MessagesError,
    export_messages as export_messages,
    import_messages as import_messages,
)
from interpreters.agents.options import (
    AgentOptions as AgentOptions,
    ProgramOptions as ProgramOptions,
)
from interpreters.agents.results import (
    RunResult as RunResult,
    Suspended as Suspended,
)
from interpreters.agents.structured_answers import (
    AnswerError as AnswerError,
    StructuredResult as StructuredResult,
)
from interpreters.durable.dbos.operations import DBOSOperations as DBOSOperations
from interpreters.durable.dbos.sessions import DBOSSessions as DBOSSessions
from interpreters.durable.definition import DurableAgent as DurableAgent
from interpreters.durable.model_hosts.hosts import ModelHost as ModelHost
from interpreters.durable.operations import (
    DurableHealth as DurableHealth,
    DurableOperations as DurableOperations,
    DurableRun as DurableRun,
)
from interpreters.durable.restate.operations import RestateOperations as RestateOperations
from interpreters.durable.restate.sessions import RestateSessions as RestateSessions
from interpreters.hosting import (
    AgentHandle as AgentHandle,
    AgentHost as AgentHost,
    HostDiedError as HostDiedError,
    HostError as HostError,
    HostTimeoutError as HostTimeoutError,
    ModelChoice as ModelChoice,
)
from interpreters.loop.errors import (
    AgentClosedError as AgentClosedError,
    BusyError as BusyError,
    PendingError as PendingError,
    TurnFailedError as TurnFailedError,
)
from interpreters.loop.performers import Scope as Scope, call_tool as call_tool
from interpreters.loop.program.approvals import (
    Approval as Approval,
    ApprovalRequest as ApprovalRequest,
)
from interpreters.loop.program.context_files import (
    ContextFiles as ContextFiles,
)
from interpreters.loop.program.message_content import (
    load_image as load_image,
)
from interpreters.loop.program.message_sources import (
    ContextSourceError as ContextSourceError,
    SystemPromptError as SystemPromptError,
)
from interpreters.loop.program.pending import (
    LATER as LATER,
)
from interpreters.loop.program.questions import (
    HookAnswer as HookAnswer,
    HookRequest as HookRequest,
    PlanAnswer as PlanAnswer,
    PlanRequest as PlanRequest,
    QuestionRequest as QuestionRequest,
)
from interpreters.mcp.client import (
    AsyncMCPServers as AsyncMCPServers,
    MCPServers as MCPServers,
)
from interpreters.mcp.manager import (
    MCPServerError as MCPServerError,
)
from interpreters.mcp.server_config import (
    MCPServer as MCPServer,
    read_servers as read_servers,
)
from interpreters.mcp.service import (
    MCPService as MCPService,
    agent_tool as agent_tool,
)
from interpreters.observing import (
    events as events,
)
from interpreters.observing.tracing import Tracing as Tracing
from interpreters.recording.episodes import (
    EpisodeWriter as EpisodeWriter,
    hide_secrets as hide_secrets,
)
from interpreters.recording.journal import (
    FileRecorder as FileRecorder,
    ForeignRecordingError as ForeignRecordingError,
    JournalLockedError as JournalLockedError,
)
from interpreters.recording.output_tool import (
    output_tool as output_tool,
    read_result as read_result,
)
from interpreters.recording.recorder import (
    Recorder as Recorder,
)
from interpreters.recording.redaction import (
    SECRET_SHAPES as SECRET_SHAPES,
    Found as Found,
    Redaction as Redaction,
)
from interpreters.recording.rehearsal import (
    rehearse as rehearse,
)
from interpreters.recording.replay import (
    ReplayDivergedError as ReplayDivergedError,
    replay as replay,
)
from interpreters.recording.secrets.formats import SecretFormat as SecretFormat
from interpreters.recording.secrets.shapes import (
    secret_shape as secret_shape,
)
from interpreters.recording.sessions import (
    FileRecording as FileRecording,
    copy_session as copy_session,
    list_sessions as list_sessions,
    move_session as move_session,
    prune_sessions as prune_sessions,
    read_transcript as read_transcript,
    search_sessions as search_sessions,
    transcript_to_data as transcript_to_data,
    transcript_to_markdown as transcript_to_markdown,
    transcript_to_openai as transcript_to_openai,
)
from interpreters.recording.store import SqlStore as SqlStore
from interpreters.recording.undo.restore import (
    Restored as Restored,
    UndoError as UndoError,
    undo as undo,
)
from interpreters.testing import (
    fakes as fakes,
)
from interpreters.testing.cassettes import Cassette as Cassette, CassetteMissError as CassetteMissError
from interpreters.testing.contracts import (
    about as about,
    assert_calls as assert_calls,
    called as called,
    in_any_order as in_any_order,
    matching as matching,
)
from interpreters.testing.durable import MemoryEngine as MemoryEngine
from interpreters.testing.fakes import ScriptedModel as ScriptedModel
from interpreters.testing.recorders import PROMISES as PROMISES
from interpreters.toolbox import file_tools as file_tools, search_tools as search_tools, shell_tools as shell_tools
from interpreters.tools.context import (
    ToolContext as ToolContext,
)
from interpreters.tools.previews import (
    Preview as Preview,
)
from interpreters.tools.tool import (
    Tool as Tool,
    ToolError as ToolError,
    ToolRetry as ToolRetry,
    tool as tool,
)
from interpreters.tools.tool_lists import (
    ListProblem as ListProblem,
    ToolList as ToolList,
    read_tools as read_tools,
)
