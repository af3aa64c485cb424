"""``cogstep durable``: see and steer durable sessions on DBOS or Restate."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.commands.replay import format_count
from interpreters.cli.commands.sessions import age
from interpreters.cli.options.arguments import add_command, add_group
from interpreters.cli.options.user_modules import load_named
from interpreters.cli.options.values import TURN, checked
from interpreters.cli.screen.terminal import columns, err, out

if TYPE_CHECKING:
    from interpreters.durable.operations import DurableOperations, DurableRun

DURABLE = """\
See and steer durable sessions: what runs, waits or failed on a durable engine.

--store URL names the sessions' database, whose engine is DBOS. --restate URL is the admin address of a Restate server;
then --store is only needed by `answer`, and by `retry` to continue an open turn. No agent's code is loaded.

examples:
  cogstep durable list --store postgresql://user@host/agents
  cogstep durable list --restate http://127.0.0.1:9070
"""

LIST = """\
List runs, newest first. A run takes one message, answer or cancellation of a session.

  queued      no process has begun it        waiting    its turn waits for a person or an outside tool
  running     a process executes it          failed     it ended with an error, or its turn failed
  retrying    the engine will try again      refused    nothing of it was carried out
  paused      the engine gave up trying      cancelled  it was cancelled before its end

Completed runs are left out without --all. Runs under way and waiting ones are all shown, of the others the newest.

examples:
  cogstep durable list --store sqlite:///sessions.db --all --newest 20
  cogstep durable list --store sqlite:///sessions.db --status waiting,failed --json
"""

SHOW = """\
Show one run: its status with the whole reason, what it waits for, and the steps that the engine has stored.

examples:
  cogstep durable show ada:5b2c --store sqlite:///sessions.db
  cogstep durable show inv_1dceKvwtEc2n --restate http://127.0.0.1:9070 --json
"""

CANCEL = """\
Cancel what a session does, or take a queued message back.

With the name of a session, or a run that is executed or waits, the turn is stopped and closed; messages behind it are
still worked on. With a queued run only its message is taken back.

examples:
  cogstep durable cancel ada --store sqlite:///sessions.db --reason "a wrong invoice"
  cogstep durable cancel inv_1dceKvwtEc2n --restate http://127.0.0.1:9070
"""

RETRY = """\
Execute a failed, refused, cancelled or paused run again.

If the run has left its turn open, the turn continues. Otherwise the run's message is taken again: what its earlier
execution did stays done, and is in the conversation.

examples:
  cogstep durable retry ada:5b2c --store sqlite:///sessions.db
  cogstep durable retry inv_1dceKvwtEc2n --restate http://127.0.0.1:9070
"""

ANSWER = """\
Answer what a session's turn waits for; `list` shows its id.

ANSWER is yes or no for an approval or a plan, and the chosen option for a question. JSON is read as such; several
questions take a list. The result of an external tool needs --agents, and so does an answer with a secret of a
definition's own.

examples:
  cogstep durable answer ada 1.1.1 yes --store sqlite:///sessions.db
  cogstep durable answer ada 1.2.1 '"paid"' --store sqlite:///sessions.db --agents agents:helper
"""

DRAIN = """\
Let no process begin another run, and wait until those that are executed have ended.

Messages are still accepted; they wait until `drain --undo`. Exit code 1 if runs are still executed at the end of
--timeout. Only on DBOS: on Restate end the processes with SIGTERM.

examples:
  cogstep durable drain --store sqlite:///sessions.db --timeout 60
  cogstep durable drain --store sqlite:///sessions.db --undo
"""

CLEAR = """\
Delete the engine's data of runs that ended long ago, such as their messages and results.

The recordings stay, and on DBOS the newest run of each session. The result of a deleted run is gone, and its key can be
sent again.

examples:
  cogstep durable clear --store sqlite:///sessions.db --older-than 30d
  cogstep durable clear --restate http://127.0.0.1:9070 --older-than 2h
"""

VERSIONS = """\
List the versions of agent logic, and what still needs each: runs under way, sessions, and those that are open.

Stop the last process of a version once its sessions are done; `absent` names agents that runs wait for in vain.

examples:
  cogstep durable versions --store sqlite:///sessions.db
  cogstep durable versions --restate http://127.0.0.1:9070 --json
"""

HEALTH = """\
Check that the engine answers and each run under way has a process. Exit code 1 if not, with the problems on stdout.

examples:
  cogstep durable health --store sqlite:///sessions.db
  cogstep durable health --restate http://127.0.0.1:9070 --json
"""

METRICS = """\
Print the numbers of runs by status, and of working processes, in Prometheus's text format.

examples:
  cogstep durable metrics --store sqlite:///sessions.db
  cogstep durable metrics --restate http://127.0.0.1:9070 > cogstep.prom
"""

REASON = 72
"""Characters of a reason in a list."""

STATUSES = ("queued", "running", "retrying", "paused", "waiting", "completed", "failed", "refused", "cancelled")
"""As in ``interpreters.durable.operations``; repeated here so that ``--help`` does not import it."""

SECONDS = checked(float, "a number of seconds from 0", lambda value: value >= 0)

WORDS = {"yes": True, "no": False}

UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def add(commands: Any) -> None:
    actions = add_group(commands, "durable", "list, show and steer the runs of durable sessions", DURABLE)

    listing = _add(actions, "list", "list runs: what is under way, waits or failed", LIST, _list)
    listing.add_argument("--session", metavar="NAME", default="", help="its runs only")
    listing.add_argument("--status", metavar="STATUS", type=_statuses, help="these only, with commas between them")
    listing.add_argument("--all", action="store_true", help="completed runs too")
    listing.add_argument("--newest", type=TURN, metavar="N", default=100, help="at most N ended runs (default: 100)")

    show = _add(actions, "show", "show a run with its steps", SHOW, _show)
    show.add_argument("run", metavar="RUN", help="its id")

    cancel = _add(actions, "cancel", "stop a session's turn, or take a queued message back", CANCEL, _cancel)
    cancel.add_argument("target", metavar="RUN", help="its id, or the name of a session")
    cancel.add_argument("--reason", metavar="TEXT", default="", help="recorded with the end of the turn")
    _add_ingress(cancel)

    retry = _add(actions, "retry", "execute a failed run again", RETRY, _retry)
    retry.add_argument("run", metavar="RUN", help="its id")
    _add_ingress(retry)

    answer = _add(actions, "answer", "answer what a session waits for", ANSWER, _answer)
    answer.add_argument("session", metavar="SESSION", help="its name")
    answer.add_argument("effect", metavar="ID", help="what is answered, such as 1.1.1")
    answer.add_argument("answer", metavar="ANSWER", help="yes, no, JSON or a text")
    answer.add_argument("--agents", metavar="MODULE:NAME", help="a DurableAgent, or several in a list")
    _add_ingress(answer)

    drain = _add(actions, "drain", "let no further run begin, and wait for those that are executed", DRAIN, _drain)
    drain.add_argument("--agent", metavar="NAME", default="", help="its runs only")
    drain.add_argument("--timeout", type=SECONDS, metavar="SECONDS", help="wait no longer (default: until all ended)")
    drain.add_argument("--undo", action="store_true", help="let runs begin again")

    clear = _add(actions, "clear", "delete the engine's data of runs that ended long ago", CLEAR, _clear)
    clear.add_argument("--older-than", type=age, metavar="AGE", required=True, help="ended before: 90m, 12h, 30d, 8w")

    _add(actions, "versions", "list what runs on which version", VERSIONS, _versions)
    _add(actions, "health", "check the engine and its processes", HEALTH, _health)
    _add(actions, "metrics", "print metrics for Prometheus", METRICS, _metrics, as_json=False)


def _add(actions: Any, name: str, summary: str, page: str, act: Any, *, as_json: bool = True) -> Any:
    command = add_command(actions, name, summary, page, act)
    command.add_argument("--store", metavar="URL", help="the sessions' database, whose engine is DBOS")
    command.add_argument("--restate", metavar="URL", help="the admin address of a Restate server")
    if as_json:
        command.add_argument("--json", action="store_true", help="print one object a line")
    return command


def _add_ingress(command: Any) -> None:
    command.add_argument("--ingress", metavar="URL", default="", help="Restate's address for messages, if it differs")


def _statuses(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if unknown := [one for one in found if one not in STATUSES]:
        raise argparse.ArgumentTypeError(f"there is no status {unknown[0]!r}; there are {', '.join(STATUSES)}")
    return found


def _operations(options: argparse.Namespace) -> DurableOperations:
    """Return the engine that the options name.

    Raises:
        CommandError: they name none.
        CogstepError: it can't be used, or its extra is missing.
    """
    agents = _agents(getattr(options, "agents", None))
    if options.restate is not None:
        from interpreters.durable.restate.operations import RestateOperations

        ingress = getattr(options, "ingress", "")
        return RestateOperations(options.restate, store=options.store or "", ingress=ingress, agents=agents)
    if options.store is None:
        raise CommandError(
            "say where the sessions are: --store URL (on DBOS), or --restate URL, a server's admin address"
        )
    from interpreters.durable.dbos.operations import DBOSOperations

    return DBOSOperations(options.store, agents)


def _agents(name: str | None) -> tuple[Any, ...]:
    if name is None:
        return ()
    from interpreters.durable.definition import DurableAgent

    found = load_named("--agents", name)
    agents = (found,) if isinstance(found, DurableAgent) else tuple(found) if isinstance(found, Iterable) else ()
    if not agents or not all(isinstance(one, DurableAgent) for one in agents):
        raise CommandError(f"--agents {name} is no DurableAgent and no list of them")
    return agents


def _list(options: argparse.Namespace) -> int:
    from interpreters.durable.operations import OF_INTEREST

    wanted: Any = options.status or (STATUSES if options.all else OF_INTEREST)
    with _operations(options) as operations:
        found = operations.runs(options.session, statuses=wanted, newest=options.newest)
    if options.json:
        for one in found:
            out().write_json(one.data())
        return ANSWERED
    heads = ("status", "age", "tries", "session", "agent", "version", "run", "reason")
    for line in columns([heads, *map(_row, found)], right=(1, 2)) if found else ():
        out().write_line(line)
    if not found:
        more = "" if options.all or options.status else "; --all shows the completed ones"
        err().write_line(f"no such runs here{more}")
    return ANSWERED


def _row(run: DurableRun) -> tuple[str, ...]:
    reason = " ".join(run.reason.split())
    short = reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…"
    place = run.session, run.agent or "?", run.version or "?", run.id or "-"
    return run.status, format_age(run.age), str(run.attempts), *place, short


def format_age(seconds: float) -> str:
    """Return a time span in its largest unit, such as ``3h``."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(seconds, 0.0):.0f}s"


def _show(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        details = operations.run(options.run)
    if options.json:
        out().write_json(details.data())
        return ANSWERED
    run = details.run
    out().write_line(f"run:      {run.id}")
    out().write_line(f"session:  {run.session}, of the agent {run.agent or '?'} in version {run.version or '?'}")
    out().write_line(f"status:   {run.status} ({operations.engine}: {run.engine_status or 'not stored any longer'})")
    ended = "" if run.ended is None else f", ended {format_age(run.ended)} ago"
    out().write_line(f"times:    sent {format_age(run.age)} ago{ended}; tries: {run.attempts}")
    if run.reason:
        out().write_line("reason:")
        for line in run.reason.splitlines():
            out().write_line(f"  {line}")
    for one in run.waits_for:
        out().write_line(f"answer:   cogstep durable answer {run.session} {one.effect_id} ...  ({one})")
    for step in details.steps:
        child = f", run {step.child}" if step.child else ""
        failed = f", failed: {' '.join(step.error.split())}" if step.error else ""
        out().write_line(f"step:     {step.name}{child}{failed}")
    return ANSWERED


def _cancel(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        closing = operations.cancel(options.target, options.reason)
    what = "taken back" if closing == options.target else f"its turn is closed by the run {closing}"
    return _tell(options, {"run": closing}, f"{options.target}: {what}")


def _retry(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        run = operations.retry(options.run)
    what = "queued again" if run == options.run else f"goes on as the run {run}"
    return _tell(options, {"run": run}, f"{options.run}: {what}")


def _answer(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        run = operations.answer(options.session, options.effect, _read_answer(options.answer))
    return _tell(options, {"run": run}, f"{options.session}: goes on as the run {run}")


def _read_answer(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _drain(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        if options.undo:
            agents = operations.undrain(options.agent)
            return _tell(
                options, {"agents": agents}, f"runs begin again: {', '.join(agents) or 'there is no agent yet'}"
            )
        result = operations.drain(options.agent, timeout=options.timeout)
    left = len(result.running)
    told = {"agents": result.agents, "running": [one.data() for one in result.running]}
    _tell(options, told, f"no new runs begin: {', '.join(result.agents) or 'there is no agent yet'}")
    if left:
        names = ", ".join(one.id for one in result.running[:3])
        err().write_line(f"{format_count(left, 'run')} still executed: {names}{'...' * (left > 3)}")
    return UNANSWERED if left else ANSWERED


def _clear(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        count = operations.clear(options.older_than)
    return _tell(options, {"deleted": count}, f"deleted: {format_count(count, 'run')}")


def _versions(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        found = operations.versions()
    if options.json:
        for one in found:
            out().write_json(one.data())
        return ANSWERED
    heads = ("version", "agents", "processes", "runs", "sessions", "open", "absent")
    rows = [
        (
            one.version,
            ",".join(one.agents) or "-",
            "?" if one.processes is None else str(one.processes),
            str(one.runs),
            str(one.sessions),
            str(len(one.open)),
            ",".join(one.absent) or "-",
        )
        for one in found
    ]
    for line in columns([heads, *rows], right=(2, 3, 4, 5)):
        out().write_line(line)
    return ANSWERED


def _health(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        health = operations.health()
    if options.json:
        out().write_json(health.data())
        return ANSWERED if health.ok else UNANSWERED
    out().write_line("healthy" if health.ok else "not healthy")
    for problem in health.problems:
        out().write_line(f"  {problem}")
    if health.drained:
        out().write_line(f"drained: {', '.join(health.drained)}")
    for status, count in health.counts:
        if count:
            out().write_line(f"{status}: {count}")
    if health.workers is not None:
        out().write_line(f"processes at work: {health.workers}")
    return ANSWERED if health.ok else UNANSWERED


def _metrics(options: argparse.Namespace) -> int:
    with _operations(options) as operations:
        out().write(operations.metrics_text())
    return ANSWERED


def _tell(options: argparse.Namespace, data: dict[str, Any], text: str) -> int:
    if options.json:
        out().write_json(data)
    else:
        out().write_line(text)
    return ANSWERED
