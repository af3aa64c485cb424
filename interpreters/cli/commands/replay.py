"""``cogstep replay``: fold a recording again, without a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from interpreters.cli._errors import ANSWERED, UNANSWERED, CommandError
from interpreters.cli.options.arguments import (
    add_command,
    add_names_option,
    add_sampling_options,
    add_tool_options,
    features,
)
from interpreters.cli.options.store_option import add_recording, name_of
from interpreters.cli.options.user_modules import load_named
from interpreters.cli.options.values import COUNT, REPLY
from interpreters.cli.screen.terminal import err, out

if TYPE_CHECKING:
    from interpreters.recording.journal import Header
    from interpreters.recording.recorded_requests import RecordedRequests
    from interpreters.recording.rehearsal import RehearsalReport
    from interpreters.recording.replay import ReplayDivergence, ReplayReport

PAGE = """\
Fold a recording again, without a model and without tools, and compare every decision with the recorded one.

--to N prints the state after record N, as JSON. Another prompt, other tools, options or limits show which records would
differ, and where in what the model is asked: the first one, or with --all each. --engine shows what other logic would
have decided: it names a function that makes an engine of the configuration.

examples:
  cogstep replay session.jsonl
  cogstep replay session.jsonl --system "Be brief." --tools my_tools:TOOLS --all
"""


def add(commands: Any) -> None:
    command = add_command(commands, "replay", "verify a recording without a model", PAGE, replay)
    add_recording(command)
    command.add_argument("--json", action="store_true", help="print the result as one JSON object")
    command.add_argument("--to", type=COUNT, metavar="N", help="stop after record N and print the state then, as JSON")
    command.add_argument("--all", action="store_true", help="show every record that differs, and not only the first")
    command.add_argument(
        "--engine", metavar="MODULE:NAME", help="decide with another engine, made of the recorded configuration"
    )
    changed = command.add_argument_group("another configuration")
    changed.add_argument("--system", metavar="TEXT", help="another system prompt")
    add_tool_options(changed, "default: as recorded")
    command.set_defaults(agent=None)
    changed.add_argument("--cwd", metavar="DIR", help="the directory that is handed to what makes tools")
    changed.add_argument("--features", type=features, metavar="NAME,...", help="other features")
    add_names_option(changed, "as recorded")
    changed.add_argument("--max-steps", type=COUNT, metavar="N", help="another limit of model replies in one turn")
    changed.add_argument("--context", type=REPLY, metavar="N", help="another size of prompt and reply, in tokens")
    add_sampling_options(changed, "as recorded")


def replay(options: argparse.Namespace) -> int:
    """Compare, print the findings, and return the exit code."""
    from cognition import to_data
    from interpreters.cli.options.tool_options import read_header
    from interpreters.recording.replay import replay as fold_recording

    engine = changed_engine(options, read_header(options.file))
    report = fold_recording(options.file, engine, to=options.to, every=options.all)
    if options.to is not None and report.same:
        out().write_json(to_data(report.state))
    elif options.json:
        out().write_json(report_data(report, every=options.all))
    else:
        complain(report)
        out().write(f"{report_text(report, every=options.all)}\n")
    return ANSWERED if report.same else UNANSWERED


def complain(report: ReplayReport | RehearsalReport | RecordedRequests) -> None:
    """Print the warnings about a recording."""
    for warning in report.warnings:
        err().write_line(f"cogstep: warning: {warning}")
    if report.foreign:
        err().write_line(f"cogstep: {report.path} was not recorded by this user ({report.foreign})")


def load_engine(name: str | None) -> Any:
    """Load ``module:name``, a function from the recorded configuration to an engine.

    Raises:
        CommandError: it does not exist, or is not callable.
    """
    if name is None:
        return None
    engine = load_named("--engine", name)
    if not callable(engine):
        raise CommandError(f"--engine {name} is nothing that makes an engine of a configuration")
    return engine


def changed_engine(options: argparse.Namespace, header: Header) -> Any:
    """Return the engine for the replay: another engine, or one with a changed configuration. None for the recorded
    engine.

    Raises:
        CommandError: an option can't be used.
    """
    from attrs import evolve

    from cognition import LLMEngine
    from interpreters.cli.options.tool_options import choose_tools
    from interpreters.cli.session.session import configure

    make = load_engine(options.engine)
    named = {"system": options.system, "context_tokens": options.context}
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    changes |= configure(options, header.config)
    if options.no_tools or options.tools is not None:
        changes["tools"] = tuple(tool.spec for tool in choose_tools(options))
    if not changes:
        return make
    if header.config is None:
        name = name_of(options.file)
        raise CommandError(f"{name} was recorded by other logic, which has no configuration to be changed")
    return (make or LLMEngine)(evolve(header.config, **changes))


def report_text(report: ReplayReport, *, every: bool = False) -> str:
    """Return one line if every decision is the same, or else both sides of the first difference (with ``every``, of
    each).
    """
    from cognition.base.display import LONGEST_LINE, shown_name

    path = shown_name(str(report.path), LONGEST_LINE)
    if report.divergence is not None:
        shown = [f"{path}: {divergence}" for divergence in report.divergences]
        if every:
            shown.append(f"{path}: {len(shown)} of {format_count(report.records, 'record')} differ")
        return "\n".join(shown)
    counts = {"record": report.records, "turn": report.turns, "decision": report.decisions}
    told = ", ".join(format_count(count, name) for name, count in counts.items())
    return f"{path}: every decision is the same ({told})"


def format_count(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def report_data(report: ReplayReport, *, every: bool = False) -> dict[str, Any]:
    different = report.divergence
    return {
        "file": str(report.path),
        "session": report.header.session,
        "same": report.same,
        "records": report.records,
        "turns": report.turns,
        "decisions": report.decisions,
        "warnings": list(report.warnings),
        "foreign": report.foreign,
        "divergence": different and divergence_data(different),
        **({"divergences": [divergence_data(one) for one in report.divergences]} if every else {}),
    }


def divergence_data(different: ReplayDivergence) -> dict[str, Any]:
    from attrs import asdict

    return asdict(different, filter=lambda attribute, _: not attribute.name.startswith("_"))
