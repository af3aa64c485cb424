"""The host's side: it owns a model and any number of sessions, and carries out messages.

The sender of messages may be another program than the one that started the host. So messages may use only names that
were set at the start: models, functions that make a model, and the folder of recordings and notes. Tools, approvals,
questions, plans and hooks run on the handle's side and need no names here.

The same code serves every transport: a thread of this process, a separate process (``interpreters.hosting.host_main``),
or any other ``Channel``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from attrs import evolve

from cognition import CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.agents.agent import Agent
from interpreters.agents.options import CONFIGURED
from interpreters.hosting import _protocol as say
from interpreters.hosting._channels import Channel
from interpreters.hosting._hosted_session import HostedSession, RemoteTool, run_turn
from interpreters.hosting._protocol import ModelChoice, Notice, ProtocolError, Request, line_of, read_request
from interpreters.loop.clock import Clock
from interpreters.loop.program.program import is_closed_with
from runtime.children.line_pipe import LONGEST_REASON
from runtime.protocol.model import Runtime

CLOSE_SECONDS = 5.0
"""Seconds to wait for each session at the end."""

MOST_SESSIONS = 1000
"""Each session has a thread, and the sender of messages may be a stranger."""


class Host:
    """Reads messages from a channel until it ends or a ``shutdown`` arrives.

    Args:
        channel: connected to the handle's side.
        model: the model of the sessions; None lets ``start`` choose.
        owns_model: whether to close ``model`` at the end; None as for ``Agent``. A model that the host makes is always
            closed.
        clock: for all sessions; tests pass a fake clock.
        factories: functions by name that ``start`` may choose to make the model. The arguments are JSON from the
            sender. A text is ``"package.module:function"``.
        models: the values that ``start`` may pass to ``load_model``, in addition to the small model included in
            cogstep.
        files: the folder of the recordings and note files that messages may name; ``"/"`` allows any file, None no
            file.
    """

    def __init__(
        self,
        channel: Channel,
        model: Runtime | None = None,
        *,
        owns_model: bool | None = None,
        clock: Clock | None = None,
        factories: Mapping[str, str | Callable[..., Runtime]] | None = None,
        models: Collection[str] = (),
        files: str | os.PathLike[str] | None = None,
    ) -> None:
        self._channel = channel
        self._model = model
        self._given = model is not None
        self._owns_model = owns_model
        self._clock = clock
        self._factories = dict(factories or {})
        self._models = models
        self._files = None if files is None else os.fspath(files)
        self._sessions: dict[str, HostedSession] = {}
        self._ending: list[HostedSession] = []
        """Disposed sessions that may still be closing."""

    def serve(self) -> None:
        """Handle messages until the other side shuts the host down or ends. Then release everything."""
        try:
            while (line := self._next_line()) is not None:
                try:
                    request = read_request(line)
                except ProtocolError as error:
                    self._answer_unreadable(error)
                    continue
                if isinstance(request, say.Shutdown):
                    break
                self._handle(request)
        finally:
            self._end()

    def _next_line(self) -> str | None:
        try:
            return self._channel.receive()
        except ProtocolError as error:  # nothing that could be understood comes behind it
            self._send(say.Faulted(str(error)))
            return None

    def _end(self) -> None:
        for session in list(self._sessions.values()):
            session.dispose(None, "the host was shut down")
            self._ending.append(session)
        for session in self._ending:
            session.join(CLOSE_SECONDS)
        try:
            if self._model is not None and (not self._given or is_closed_with(self._model, self._owns_model)):
                self._model.close()
        except CogstepError as error:  # such as a script with replies that nobody asked for
            self._send(say.Faulted(str(error)))
        finally:
            self._model = None  # whoever keeps a host that has ended doesn't keep gigabytes by it
            self._channel.close()

    def _send(self, notice: Notice) -> None:
        if isinstance(notice, say.Refused | say.TurnBroken | say.Faulted):  # which may repeat what was said
            notice = evolve(notice, message=notice.message[:LONGEST_REASON])
        try:
            line = line_of(notice, say.LONGEST)
        except ConfigError as error:  # such as a model that says of its costs that they are infinite
            if isinstance(notice, say.TurnEnded):
                notice = say.TurnBroken(notice.session, notice.turn, "ConfigError", str(error))
            else:
                notice = say.Faulted(str(error))
            line = line_of(notice)
        self._channel.send(line)

    def _answer_unreadable(self, error: ProtocolError) -> None:
        """Answer an unreadable message by its id or turn, if it has one: a turn with a waiting reader must end."""
        session, turn, identity = (error.data.get(name) for name in ("session", "turn", "id"))
        starts = error.data.get("type") in ("run_turn", "go_on", "answer")
        if starts and isinstance(session, str) and type(turn) is int:
            self._send(say.TurnBroken(session, turn, "ProtocolError", str(error)))
        elif isinstance(identity, str):
            self._send(say.Refused(identity, "ProtocolError", str(error)))
        else:
            self._send(say.Faulted(str(error)))

    def cancel(self, session: str, turn: int, reason: str, keep: bool = False) -> None:
        """Stop this turn, even before the message that starts it was read. Callable from any thread or a signal
        handler.
        """
        if (found := self._sessions.get(session)) is not None:
            found.cancel(turn, reason, ahead=True, keep=keep)

    def _handle(self, request: Request) -> None:
        match request:
            case say.Start():
                self._start(request)
            case say.Init():
                self._begin(request, partial(self._make, request))
            case say.Fork():
                self._fork(request)
            case say.Ping():
                self._send(say.Accepted(request.id))
            case say.Shutdown():  # ends the loop above
                pass
            case _:
                self._pass_on(request, self._sessions.get(request.session))

    def _pass_on(
        self, request: say.Run | say.Change | say.TurnNews | say.Cancel, session: HostedSession | None
    ) -> None:
        """Pass a message on to its session; refuse a request if there is no such session."""
        if session is None:
            absent = "AgentClosedError", f"there is no session {request.session!r}"
            if isinstance(request, say.Change):
                self._send(say.Refused(request.id, *absent))
            elif isinstance(request, say.Run):
                self._send(say.TurnBroken(request.session, request.turn, *absent))
            return
        match request:
            case say.RunTurn() | say.GoOn() | say.Compact() | say.GiveAnswer():
                session.accept(request.turn, partial(run_turn, request))
            case say.Cancel(turn=turn, reason=reason, keep=keep):
                session.cancel(turn, reason, keep=keep)
            case say.SetMode(mode=mode):
                session.run_now(request.id, lambda agent: agent.set_mode(mode))
            case say.Forget(rules=rules):
                session.run_now(request.id, lambda agent: agent.forget(*rules))
            case say.AskRemembered():
                session.run_now(request.id, lambda agent: say.Remembered(request.id, agent.remembered))
            case say.Reset():
                session.cancel(None, "the session was reset")
                session.queue(request.id, lambda agent: agent.reset())
            case say.Dispose():
                self._sessions.pop(request.session, None)  # it may be gone: see `_forget`
                self._ending = [other for other in self._ending if not other.join(0)]
                self._ending.append(session)
                session.dispose(request.id, "the session was closed")
            case _:
                session.take(request)

    def _forget(self, session: HostedSession) -> None:
        """Free the name of a session that failed to start. Called on its thread."""
        if self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    # ------------------------------------------------------------------------------------------------- what is begun

    def _start(self, request: say.Start) -> None:
        try:
            if request.version != say.VERSION:
                raise ConfigError(f"these messages have version {request.version}; this host speaks {say.VERSION}")
            if self._model is None:
                self._model = self._make_model(request.model or ModelChoice())
            info = self._model.describe()
        except Exception as error:
            self._send(say.Refused(request.id, type(error).__name__, str(error)))
        else:
            self._send(say.Started(request.id, info.name, info.backend, info.context_tokens))

    def _begin(self, request: say.Init | say.Fork, make: Callable[..., Agent]) -> None:
        """Begin a new session with the agent that ``make`` returns, or send a refusal."""
        refusal = ""
        if self._model is None:
            refusal = "the host has no model yet; the first message has to be start"
        elif request.session in self._sessions:
            refusal = f"there is a session {request.session!r} already"
        elif len(self._sessions) >= MOST_SESSIONS:
            refusal = f"there are {MOST_SESSIONS} sessions already; dispose of one"
        else:
            try:
                settings = request.settings
                journal = None if settings.journal is None else self._resolve_file(settings.journal)
                notes = settings.notes if settings.notes in ("", ":memory:") else self._resolve_file(settings.notes)
                request = evolve(request, settings=evolve(settings, journal=journal, notes=notes))
            except ConfigError as error:
                refusal = str(error)
        if refusal:
            self._send(say.Refused(request.id, "ConfigError", refusal))
            return
        session = HostedSession(request.session, request.config, request.settings, self._send)
        self._sessions[request.session] = session
        begun: dict[str, Any] = {"session": request.session, "journal": session.journal, "clock": self._clock}
        session.begin(request.id, lambda given, tools: make(tools, **begun, **given), self._forget)

    def _resolve_file(self, name: str) -> str:
        """Return the path of a file that a message names.

        Raises:
            ConfigError: it is outside the allowed folder.
        """
        if self._files is None:
            raise ConfigError(f"this host lets messages name no files, and {show(name)} is one; it says so with files=")
        if self._files == "/":
            return name
        folder = os.path.realpath(self._files)
        place = folder if "\0" in name else os.path.realpath(os.path.join(folder, name))
        if place == folder or os.path.commonpath((folder, place)) != folder:
            raise ConfigError(f"{show(name)} is no file in the folder that this host lets messages name files in")
        return place

    def _make(self, request: say.Init, tools: list[RemoteTool], **given: Any) -> Agent:
        model = self._find_model()
        if request.resume:
            del given["session"]  # the recording names it
            if (journal := given.pop("journal")) is None:
                raise ConfigError("a session is resumed from its journal; say which one")
            return Agent.resume(journal, model, tools, **given)
        return Agent(model, tools, request.config.system, **_configured(request), **given)

    def _fork(self, request: say.Fork) -> None:
        origin = self._sessions.get(request.origin)
        if origin is None or origin.journal is None:
            reason = "there is no session" if origin is None else "no journal is written by"
            message = f"{reason} {request.origin!r}, and a session is forked from its journal"
            self._send(say.Refused(request.id, "ConfigError", message))
            return
        self._begin(request, partial(self._branch, request, origin.journal))

    def _branch(self, request: say.Fork, origin: str, tools: list[RemoteTool], **given: Any) -> Agent:
        given |= {"turn": request.after, "foreign": request.foreign}
        given |= _configured(request) if request.foreign else {}
        return Agent.fork(origin, self._find_model(), tools, request.config.system or None, **given)

    def _find_model(self) -> Runtime:
        if self._model is None:
            raise ConfigError("the host has no model")
        return self._model

    def _make_model(self, choice: ModelChoice) -> Runtime:
        """Return the model that a message asks for.

        Raises:
            ConfigError: this host does not allow it.
            ModelLoadError: it can't be loaded; also any error that a factory raises.
        """
        if not choice.factory:
            from runtime import load_model

            if choice.load is not None and choice.load not in self._models:
                raise ConfigError(f"this host loads no model {show(choice.load)}; {_names('models', self._models)}")
            return load_model(choice.load)
        if choice.factory not in self._factories:
            names = _names("factories", self._factories)
            raise ConfigError(f"this host has no factory {show(choice.factory)}; {names}")
        make = self._factories[choice.factory]
        model = (find_factory(make) if isinstance(make, str) else make)(**choice.arguments)
        if not isinstance(model, Runtime):
            raise ConfigError(f"the factory {choice.factory!r} gave {type(model).__name__}, which is no Runtime")
        return model


def _configured(request: say.Init | say.Fork) -> dict[str, Any]:
    """Return the configuration's options of an agent; its tools and hooks are the handle's."""
    return {name: getattr(request.config, name) for name in CONFIGURED}


def _names(what: str, names: Iterable[str]) -> str:
    named = ", ".join(map(repr, names))
    return f"it names {named}" if named else f"it names none: see {what}="


def find_factory(factory: str) -> Callable[..., Runtime]:
    """Return the function with a name such as ``"package.module:function"``.

    Raises:
        ConfigError: it can't be imported.
    """
    module, _, name = factory.partition(":")
    try:
        make: Callable[..., Runtime] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the factory {factory!r} can't be found ({error}); write package.module:function") from error
    return make
