"""Shared by commands with an agent: make it from the options, and run a turn."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attrs import evolve

from cognition import AgentConfig, Cancelled, Completed, Outcome, Policy, Rule, shell_dangers, shell_protections
from interpreters.agents.agent import Agent
from interpreters.agents.options import ConfigOptions, NewSessionOptions, ProgramOptions, RoutingOptions
from interpreters.agents.results import RunResult, Suspended
from interpreters.cli._errors import ANSWERED, INTERRUPTED, UNANSWERED, CommandError, Terminated, reason_of
from interpreters.cli.options.arguments import FEATURES
from interpreters.cli.options.default_tools import is_shipped, offers_all, usual_features
from interpreters.cli.options.model_options import load_options
from interpreters.cli.options.program_options import configuration_options, program_options, runtime_options
from interpreters.cli.options.tool_options import choose_tools, tool_warnings
from interpreters.cli.options.user_modules import redirect_output
from interpreters.cli.screen.output import JsonLines, Output, Screen
from interpreters.cli.screen.terminal import bar, err, out
from interpreters.cli.session._approval_dialog import approver, refused_lines
from interpreters.cli.session._context_command import LastRequest
from interpreters.cli.session._prompt import Prompt
from interpreters.cli.session._questions import questioner, reviewer
from interpreters.cli.session.answers import pending_lines
from interpreters.cli.session.interrupts import Interrupts
from interpreters.loop.program.context_files import ContextFiles
from interpreters.observing.events import Inline
from interpreters.recording.episodes import EpisodeWriter, hide_secrets
from interpreters.recording.recorder import Recorder, Where
from interpreters.recording.redaction import Redaction
from interpreters.tools.tool import Tool
from runtime import LoadProgress, MemoryFolder, Notes, Runtime, load_model

Result = TypeVar("Result")


class Session:
    """An agent with its output and its signals."""

    output: Output

    def __init__(self, agent: Agent, person: Prompt, interrupts: Interrupts, last_request: LastRequest) -> None:
        self.agent = last_request.agent = agent
        self.last_request = last_request
        self.person = person
        self.output = output = person.output
        self.before: str = ""
        """Text to add before the next message."""
        self._interrupts = interrupts
        output.on_failure = lambda: agent.cancel("the output can't be written")

    def ask(self, text: str) -> RunResult:
        """Run one turn with this message; see ``turn``."""
        before, self.before = self.before, ""
        return self.turn(lambda: self.agent.run(f"{before}\n\n{text}" if before else text))

    def turn(self, run: Callable[[], RunResult]) -> RunResult:
        """Run one turn; see ``guard``."""
        result = self.guard(run)
        waiting = pending_lines(result.pending, self.person, self.agent.config.offered)
        self.output.notes((*refused_lines(self.person), *waiting), "warning")
        return result

    def guard(self, run: Callable[[], Result]) -> Result:
        """Run work of the agent, such as a turn. Ctrl-C and SIGTERM cancel it.

        Raises:
            OSError: the output can't be written; the turn was cancelled for this reason.
            Terminated: SIGTERM arrived during the turn.
            JournalWriteError: the recording can't be written.
        """
        try:
            with self._interrupts.turn(lambda: self.agent.cancel("the user asked to stop")), redirect_output():
                result = run()
        finally:
            self.output.clear()
        if self.output.failure is not None:
            raise self.output.failure
        if self._interrupts.terminated:
            raise Terminated
        return result


class NewSession(NewSessionOptions, RoutingOptions):
    """The options of a new session, as set by a command."""


Begin = Callable[[Runtime, ProgramOptions], Agent]
"""Makes the agent of a command, once the model is loaded."""


@contextlib.contextmanager
def open_session(options: argparse.Namespace, begin: Begin | None = None) -> Iterator[Session]:
    """Check the options, load the model and start the recording; close all of it at the end.

    Checks as much as possible before loading the model. ``begin`` makes an agent other than a new one.
    """
    # Warnings reach the user as events; without a handler, Python would print them a second time.
    logging.getLogger("cogstep").addHandler(logging.NullHandler())
    begin = begin or new_agent(options)
    output = JsonLines(out(), err()) if options.json else Screen(out(), err(), verbose=options.verbose)
    with Interrupts(restore=err().is_terminal).install() as interrupts, contextlib.ExitStack() as at_the_end:
        person = Prompt(options, output, interrupts)
        given: ProgramOptions = {"ask": questioner(person), "review": reviewer(person)}
        given["approve"] = approver(None, person)
        given |= runtime_options(options)  # type: ignore[typeddict-item]  # each name of it is one of these
        if options.approve is not None:
            given["approve"] = approver(options.approve, person)
        last_request = LastRequest()
        given["observers"] = [Inline(output), Inline(last_request)]
        given["owns_model"] = True  # nobody else has it
        if options.keep_secrets:
            given["redact"] = None
        if options.notes is not None:
            given["memory"] = at_the_end.enter_context(Notes(options.notes))
        if options.context_files is not None:
            given["context"] = [*given.get("context", ()), ContextFiles(options.context_files)]
        if options.memory is not None:
            redact = given.get("redact", Redaction())
            hide = None if redact is None else partial(hide_secrets, redact=redact)
            given["memory"] = memory = at_the_end.enter_context(MemoryFolder(options.memory, hide=hide))
            writer = EpisodeWriter(memory, on_problem=lambda problem: output.note(f"! {problem}", "warning"))
            given["observers"] = [*given["observers"], writer]
        given["models"] = others = dict(given.get("models") or {})  # those of the program, by their names
        for spec in options.fallback or ():
            if spec not in others:
                others[spec] = at_the_end.enter_context(contextlib.closing(_load(options, output, other=spec)))
        model = _load(options, output)
        try:
            of_others = [f"{name}: {told}" for name, one in others.items() for told in one.describe().warnings]
            for warning in (*tool_warnings(options), *model.describe().warnings, *of_others):
                output.note(f"! {warning}", "warning")
            agent = begin(model, given)
        except BaseException:
            model.close()
            raise
        with agent:
            if options.mode is not None:
                agent.set_mode(options.mode)
            yield Session(agent, person, interrupts, last_request)


def new_agent(options: argparse.Namespace) -> Begin:
    """Return a function that makes a new agent from the options. Raises ``CommandError`` for invalid options."""
    tools = choose_tools(options)
    given = new_options(options)
    check_recording(options.record)
    system = program_options(options).get("system", "") if options.system is None else options.system
    if options.memory is not None and isinstance(system, str):
        with MemoryFolder(options.memory) as memory:
            system = "\n\n".join(part for part in (system, memory.digest()) if part)
    protect(given, tools)
    return lambda model, more: Agent(model, tools, system, **given, **more)


def protect(given: NewSession, tools: Iterable[Tool[..., Any]], recorded: AgentConfig | None = None) -> None:
    """Add policy rules that deny dangerous shell commands, if a shell is offered that the recording did not have. A
    policy of the program itself is left unchanged.
    """
    known = () if recorded is None else tuple(tool.name for tool in recorded.tools)
    shells = [tool.spec.name for tool in tools if tool.spec.command and tool.spec.name not in known]
    protections = tuple(rule for name in shells for rule in shell_rules(name))
    if protections and "policy" not in given:
        policy = Policy() if recorded is None else recorded.policy
        given["policy"] = evolve(policy, rules=(*policy.rules, *protections))


def shell_rules(tool: str) -> tuple[Rule, ...]:
    """Return the rules for a shell that no answer and no mode lifts: against fetching and the destruction of disks."""
    blocked = [danger.rule for danger in shell_dangers(tool) if danger.level == "block"]
    return (*shell_protections(tool), *blocked)


def new_options(options: argparse.Namespace, recorded: AgentConfig | None = None) -> NewSession:
    """Return the options of a new session that differ from the recording, or from the defaults without a recording."""
    usual = recorded or AgentConfig()
    offered: ConfigOptions = {}
    if recorded is None and offers_all(options):
        usual = evolve(usual, features=usual_features(options))
        offered = {"features": usual.features, "names": "claude"}
    if recorded is None and options.agent is None and is_shipped(options.model):
        offered["compact_at"] = None  # it can't write a summary
    own = configuration_options(options)
    for name in ("options", "limits", "features"):  # which options of the command change in part
        if own.get(name) is not None:
            usual = evolve(usual, **{name: own[name]})
    given: NewSession = {**own, **offered, **configure(options, usual), "journal": options.record}  # type: ignore[typeddict-item]
    if options.fallback:
        given["fallback"] = tuple(options.fallback)
    more = {"questions"} if options.ask else set()
    more |= {"memory"} if options.notes is not None or options.memory is not None else set()
    named = more.union(usual.features if options.features is None else options.features)
    features = tuple(feature for feature in FEATURES if feature in named)
    if more:
        given["features"] = features
    check_notes(options, features)
    return given


def configure(options: argparse.Namespace, recorded: AgentConfig | None = None) -> ConfigOptions:
    """Return the configuration that the options change, except prompt and tools."""
    usual = recorded or AgentConfig()
    given: ConfigOptions = {}
    chosen = {name: getattr(options, name) for name in SAMPLING if getattr(options, name) is not None}
    if chosen:
        given["options"] = evolve(usual.options, **chosen)
    # A replay and a fork don't have each option: they keep to the recorded value.
    limits = {field: getattr(options, name, None) for name, field in LIMITS.items()}
    if limited := {field: value for field, value in limits.items() if value is not None}:
        given["limits"] = evolve(usual.limits, **limited)
    compact_at = getattr(options, "compact_at", None)
    if compact_at is not None:
        given["compact_at"] = compact_at or None  # 0: never
    if options.protocol is not None:
        given["protocol"] = options.protocol
    if options.names is not None:
        given["names"] = options.names
    if options.features is not None:
        given["features"] = tuple(feature for feature in FEATURES if feature in options.features)
    return given


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "max_tokens", "thinking")
"""Sampling options of the command line, under the same names as in ``GenerationOptions``."""

LIMITS = {"max_steps": "steps"}
"""Options of the command line, and the fields of ``Limits`` that they set."""


def check_notes(options: argparse.Namespace, features: Iterable[str]) -> None:
    """Check, before loading anything, that the feature memory has a place for its notes."""
    given = options.notes is not None or options.memory is not None or "memory" in program_options(options)
    if "memory" in features and not given:
        raise CommandError(
            "the feature memory needs a place that keeps the model's notes; give --notes FILE, or --memory FOLDER"
        )


def exit_code(outcome: Outcome | Suspended) -> int:
    """Return the exit code for the end of a turn."""
    if isinstance(outcome, Completed):
        return ANSWERED
    return INTERRUPTED if isinstance(outcome, Cancelled) else UNANSWERED


def check_recording(name: Where | None) -> None:
    """Check, before loading anything, that a recording can be started. The journal checks again."""
    if name is None:
        return
    if isinstance(name, Recorder):
        if next(iter(name.lines()), None) is not None:
            told = f"--record: something is recorded as {name.name}, and a recording is never overwritten"
            raise CommandError(f"{told}; choose another name")
        return
    path = Path(name)
    try:
        if path.is_dir():
            raise CommandError(f"--record {path} is a directory; name a file")
        if path.is_file() and path.stat().st_size > 0:
            raise CommandError(f"--record {path} exists, and a recording is never overwritten; choose another name")
        if not path.parent.is_dir():
            raise CommandError(f"--record {path}: there is no directory {path.parent}; create it or choose another")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandError(f"--record {path} may not be written; choose another place")
    except OSError as error:  # a name that is too long, a loop of links
        raise CommandError(f"--record {path} can't be used ({reason_of(error)}); choose another name") from error


def _load(options: argparse.Namespace, output: Output, *, other: str | None = None) -> Runtime:
    def show(progress: LoadProgress) -> None:
        output.progress(bar("downloading" if progress.stage == "download" else "loading", progress.fraction))

    try:
        return load_model(other or options.model, isolate=bool(options.isolate), **load_options(options, show))
    finally:
        output.clear()
