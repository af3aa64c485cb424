"""The host's side: it holds a model and any number of sessions, and does what messages say.

One implementation for every transport: a thread of this process, a process of its own (``interpreters.hosting.child``),
or whatever has a ``Channel``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from cognition import CogstepError, ConfigError
from interpreters.agents.agent import Agent
from interpreters.agents.options import CONFIGURED
from interpreters.hosting import messages as say
from interpreters.hosting.channels import Channel
from interpreters.hosting.hosted import HostedSession, RemoteTool
from interpreters.hosting.messages import ModelChoice, Notice, ProtocolError, Request, line_of, read_request
from interpreters.loop.clock import Clock
from runtime.protocol import Runtime

CLOSE_SECONDS = 5.0
"""How long each session is waited for at the end."""


class Host:
    """Reads messages from a channel until it ends or says ``shutdown``.

    Args:
        channel: to the handle's side.
        model: what the sessions use; None to be told by ``start``.
        owns_model: whether it is closed at the end.
        clock: for all sessions; tests give a fake one.
    """

    def __init__(
        self, channel: Channel, model: Runtime | None = None, *, owns_model: bool = True, clock: Clock | None = None
    ) -> None:
        self._channel = channel
        self._model = model
        self._given = model is not None
        self._owns_model = owns_model
        self._clock = clock
        self._sessions: dict[str, HostedSession] = {}
        self._ending: list[HostedSession] = []
        """Disposed of, and perhaps still at it."""

    def serve(self) -> None:
        """Until the other side says so or goes. Nothing of the host is left afterwards."""
        try:
            while (line := self._channel.receive()) is not None:
                try:
                    request = read_request(line)
                except ProtocolError as error:
                    self._unreadable(error)
                    continue
                if isinstance(request, say.Shutdown):
                    break
                self._handle(request)
        finally:
            self._end()

    def _end(self) -> None:
        for session in list(self._sessions.values()):
            session.dispose(None, "the host was shut down")
            self._ending.append(session)
        for session in self._ending:
            session.join(CLOSE_SECONDS)
        try:
            if self._model is not None and (self._owns_model or not self._given):
                self._model.close()
        except CogstepError as error:  # such as a script with replies that nobody asked for
            self._send(say.Faulted(str(error)))
        finally:
            self._channel.close()

    def _send(self, notice: Notice) -> None:
        try:
            line = line_of(notice)
        except ConfigError as error:  # such as a model that says of its costs that they are infinite
            line = line_of(
                say.TurnBroken(notice.session, notice.turn, "ConfigError", str(error))
                if isinstance(notice, say.TurnEnded)
                else say.Faulted(str(error))
            )
        self._channel.send(line)

    def _unreadable(self, error: ProtocolError) -> None:
        """Answer what can't be read as far as it can be: a turn that somebody waits for must end."""
        session, turn, identity = (error.data.get(name) for name in ("session", "turn", "id"))
        starts = error.data.get("type") in ("run_turn", "go_on")
        if starts and isinstance(session, str) and type(turn) is int:
            self._send(say.TurnBroken(session, turn, "ProtocolError", str(error)))
        elif isinstance(identity, str):
            self._send(say.Refused(identity, "ProtocolError", str(error)))
        else:
            self._send(say.Faulted(str(error)))

    def cancel(self, session: str, turn: int, reason: str) -> None:
        """Stop this turn, from any thread or a signal handler, even before the message that begins it was read."""
        found = self._sessions.get(session)
        if found is not None:
            found.cancel(turn, reason, ahead=True)

    def _handle(self, request: Request) -> None:
        match request:
            case say.Start():
                self._start(request)
            case say.Init():
                self._init(request)
            case say.Fork():
                self._fork(request)
            case say.RunTurn(turn=turn, text=text):
                self._turn(request.session, turn, lambda agent: agent.run(text))
            case say.GoOn(turn=turn):
                self._turn(request.session, turn, lambda agent: agent.go_on())
            case say.Cancel(turn=turn, reason=reason):
                if (session := self._sessions.get(request.session)) is not None:
                    session.cancel(turn, reason)
            case say.Performed() | say.ToolProgress() | say.Read():
                if (session := self._sessions.get(request.session)) is not None:
                    session.take(request)
            case say.SetMode(mode=mode):
                if (session := self._session(request.id, request.session)) is not None:
                    session.set_mode(request.id, mode)
            case say.Reset():
                if (session := self._session(request.id, request.session)) is not None:
                    session.cancel(None, "the session was reset")
                    session.queue(request.id, lambda agent: agent.reset())
            case say.Dispose():
                if (session := self._session(request.id, request.session)) is not None:
                    self._sessions.pop(request.session, None)  # it may be gone: see `_forget`
                    self._ending = [other for other in self._ending if not other.join(0)]
                    self._ending.append(session)
                    session.dispose(request.id, "the session was closed")
            case say.Shutdown():  # ends the loop above
                pass

    def _forget(self, session: HostedSession) -> None:
        """It could not begin: the name is free again. Called on its thread."""
        if self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    def _session(self, identity: str, name: str) -> HostedSession | None:
        session = self._sessions.get(name)
        if session is None:
            self._send(say.Refused(identity, "AgentClosedError", f"there is no session {name!r}"))
        return session

    def _turn(self, name: str, turn: int, run: Any) -> None:
        session = self._sessions.get(name)
        if session is None:
            self._send(say.TurnBroken(name, turn, "AgentClosedError", f"there is no session {name!r}"))
        else:
            session.accept(turn, run)

    # ------------------------------------------------------------------------------------------------- what is begun

    def _start(self, request: say.Start) -> None:
        try:
            if request.version != say.VERSION:
                raise ConfigError(f"these messages have version {request.version}; this host speaks {say.VERSION}")
            if self._model is None:
                self._model = make_model(request.model or ModelChoice())
            info = self._model.describe()
        except Exception as error:
            self._send(say.Refused(request.id, type(error).__name__, str(error)))
        else:
            self._send(say.Started(request.id, info.name, info.backend, info.context_tokens))

    def _new(self, request: say.Init | say.Fork) -> HostedSession | None:
        """A session of this name, which none must have yet."""
        refusal = ""
        if self._model is None:
            refusal = "the host has no model yet; the first message has to be start"
        elif request.session in self._sessions:
            refusal = f"there is a session {request.session!r} already"
        if refusal:
            self._send(say.Refused(request.id, "ConfigError", refusal))
            return None
        session = HostedSession(request.session, request.config, request.settings, self._send)
        self._sessions[request.session] = session
        return session

    def _init(self, request: say.Init) -> None:
        session = self._new(request)
        if session is not None:
            session.begin(request.id, partial(self._make, request), self._forget)

    def _make(self, request: say.Init, given: Mapping[str, Any], tools: list[RemoteTool]) -> Agent:
        model, journal = self._the_model(), request.settings.journal
        if request.resume:
            if journal is None:
                raise ConfigError("a session is resumed from its journal; say which one")
            return Agent.resume(journal, model, tools, clock=self._clock, **given)
        config: Any = {name: getattr(request.config, name) for name in CONFIGURED}  # tools and hooks are the handle's
        return Agent(
            model,
            tools,
            request.config.system,
            journal=journal,
            session=request.session,
            clock=self._clock,
            **config,
            **given,
        )

    def _fork(self, request: say.Fork) -> None:
        origin = self._sessions.get(request.origin)
        if origin is None or origin.journal is None:
            reason = "there is no session" if origin is None else "no journal is written by"
            message = f"{reason} {request.origin!r}, and a session is forked from its journal"
            self._send(say.Refused(request.id, "ConfigError", message))
            return
        session = self._new(request)
        if session is not None:
            make = partial(self._branch, request, origin.journal)
            session.begin(request.id, make, self._forget)

    def _branch(self, request: say.Fork, journal: str, given: Mapping[str, Any], tools: list[RemoteTool]) -> Agent:
        config: Any = {name: getattr(request.config, name) for name in CONFIGURED} if request.foreign else {}
        return Agent.fork(
            journal,
            self._the_model(),
            tools,
            request.config.system or None,
            turn=request.after,
            foreign=request.foreign,
            journal=request.settings.journal,
            session=request.session,
            clock=self._clock,
            **config,
            **given,
        )

    def _the_model(self) -> Runtime:
        if self._model is None:
            raise ConfigError("the host has no model")
        return self._model


def make_model(choice: ModelChoice) -> Runtime:
    """The model that a message asks for.

    Raises:
        ConfigError: the factory is not there.
        ModelLoadError: it can't be loaded; and whatever a factory raises.
    """
    if not choice.factory:
        from runtime import load_model

        return load_model(choice.load)
    module, _, name = choice.factory.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the factory {choice.factory!r} can't be found ({error}); write package.module:function"
        ) from error
    model: Runtime = make(**choice.arguments)
    return model
