"""The commands of a chat, such as ``/undo``, and its other lines, which are messages to the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from cognition import CogstepError, ConfigError, Layer, Policy, Rule
from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.agents.agent import Agent
from interpreters.cli._errors import CommandError
from interpreters.cli.commands.undo import restored_lines, summarize_restored
from interpreters.cli.options.arguments import MODES
from interpreters.cli.screen.render import plan_lines, task_lines
from interpreters.cli.session.answers import pending_lines, read_answer
from interpreters.cli.session.session import Session, shell_rules
from interpreters.loop.errors import PendingError

HELP = """\
/help          this page
/tools         the tools that the model may call
/tasks, /plan  the model's tasks, and the plan that it carries out
/context       what the model was shown last: how much of its budget that took, what was shortened or left out, and why
/mode [NAME]   how much may happen without asking: default, careful, auto, plan, acceptEdits, bypassPermissions
/model [NAME]  which model answers, where there are several (--fallback); own is the first one
/policy        the rules that calls are judged by; /policy forget N, or all, takes back what you said from now on
/answer ID ... answer what the turn waits for; /cancel gives the turn up. To a call: yes, no REASON, always RULE,
               never RULE, edit JSON; to a question an option or your own words; to a plan yes, no or what is to change
/compact       have the model summarise the conversation, which it is shown in its place from then on
/undo [N]      put the files back that the model's tools have changed since turn N began; /redo takes it back
/reset         forget the conversation
/quit          leave (so does the end of input, Ctrl-D)
A trailing \\ continues a line; a line of \"\"\" opens and closes a block of lines.
Ctrl-C cancels the answer under way; a second one leaves at once."""

NAME = re.compile(r"[\w-]+")
"""A command's name."""
OWN_MODEL = "own"
"""The name that ``/model`` shows for the model of ``--model``."""


def answer(session: Session, message: str) -> None:
    """Handle one line of the user: a chat command, or a message to the model."""
    word, _, rest = message.strip().partition(" ")
    command = COMMANDS.get(word)
    if command is not None:
        command(session, rest.strip())
    elif message.startswith("/") and NAME.fullmatch(word[1:]):  # a path has more in it
        meant = get_close_matches(word, COMMANDS, 1, 0.75)
        advice = f"you may mean {meant[0]}" if meant else "/help lists them"
        session.output.note(f"! there is no command {word}; {advice}; a space before it makes it a message", "warning")
    else:
        _in_a_turn(session, lambda: session.ask(message))


def _in_a_turn(session: Session, run: Callable[[], object]) -> None:
    try:
        run()
    except KeyboardInterrupt:  # in the moment before the turn began or after it ended
        session.output.note("! cancelled", "warning")
    except PendingError:
        waiting = pending_lines(session.agent.pending, session.person, session.agent.config.offered)
        session.output.notes(waiting, "warning")


def _show_mode(session: Session, name: str) -> None:
    if name in MODES:
        session.agent.set_mode(name)
    elif name:
        session.output.note(f"! there is no mode {name}; there are {', '.join(MODES)}", "warning")
    else:
        session.output.note(f"mode: {session.agent.state.mode}; there are {', '.join(MODES)}")


def _show_model(session: Session, name: str) -> None:
    agent = session.agent
    if not name:
        resting = {one.model for one in agent.state.health if one.open_until is not None}
        for each in ("", *agent.config.models):
            rests = " (it has failed, and is tried again later)" if each in resting else ""
            mark = "*" if each == agent.active_model else " "
            session.output.note(f"{mark} {shown_name(each, 80) or OWN_MODEL}{rests}")
    elif name != OWN_MODEL and not agent.config.models:
        session.output.note(f"! there is no model {shown_name(name)!r}: --fallback SPEC brings others", "warning")
    else:
        try:
            agent.use_model("" if name == OWN_MODEL else name)
        except ConfigError as error:
            session.output.note(f"! {error}; {OWN_MODEL} is the first one", "warning")


def _policy(session: Session, text: str) -> None:
    """``/policy``, ``/policy forget N`` and ``/policy forget all``."""
    word, _, which = text.partition(" ")
    which, rules = which.strip(), session.agent.remembered
    if not text:
        session.output.notes(policy_lines(session.agent))
    elif word != "forget" or not which:
        usage = "! write /policy, /policy forget N for the rule of that number, or /policy forget all"
        session.output.note(usage, "warning")
    elif not rules:
        session.output.note("nothing was said from now on", "dim")
    elif which == "all":
        session.agent.forget()
        session.output.note("all that was said from now on is forgotten", "dim")
    elif which in map(str, range(1, len(rules) + 1)):
        pattern = rules[int(which) - 1].tool
        session.agent.forget(pattern)
        session.output.note(f"forgotten: {shown_name(pattern, LONGEST_LINE)}", "dim")
    else:
        numbers = f"1 to {len(rules)}" if len(rules) > 1 else "1"
        session.output.note(f"! there is no rule {which}; there is {numbers}, and all", "warning")


def _show_tasks(session: Session, _: str) -> None:
    session.output.notes(task_lines(session.agent.state.tasks) if session.agent.state.tasks else ["no tasks"])


def _show_plan(session: Session, _: str) -> None:
    plan = session.agent.state.plan
    session.output.notes(["no plan"] if plan is None else plan_lines(plan))


def _show_context(session: Session, _: str) -> None:
    for line, style in session.last_request.lines():
        session.output.note(line, style)


def _reset(session: Session, _: str) -> None:
    session.agent.reset()
    session.output.note("the conversation is forgotten", "dim")


def _compact(session: Session, _: str) -> None:
    try:
        session.guard(session.agent.compact)
    except CogstepError as error:
        session.output.note(f"! {error}", "warning")


def _undo(session: Session, text: str) -> None:
    """``/undo`` for the newest turn that changed files, or ``/undo N``."""
    if text and not text.isdecimal():
        session.output.note("! write /undo, or /undo N with the number of a turn", "warning")
    else:
        _put_back(session, {"turn": int(text) if text else None})


def _put_back(session: Session, which: dict[str, Any]) -> None:
    try:
        done = session.agent.undo(**which)
    except CogstepError as error:
        session.output.note(f"! {error}", "warning")
        return
    lines = list(restored_lines(done))
    session.output.notes([*lines, summarize_restored(done)])
    if lines:
        names = ", ".join(line[2:] for line in lines)
        told = f"[With /undo or /redo the user has put files back: {names}. Read them again before you go on.]"
        session.before = "\n".join(filter(None, [session.before, told]))


def _answer(session: Session, text: str) -> None:
    """``/answer ID ANSWER``, or only ``/answer ANSWER`` if a single question is pending."""
    pending = {str(effect.effect_id): effect for effect in session.agent.pending}
    effect_id, _, value = text.partition(" ")
    if effect_id not in pending and len(pending) == 1:
        effect_id, value = next(iter(pending)), text
    if effect_id not in pending or not value.strip():
        known = f"; what waits: {', '.join(pending)}" if pending else ", and nothing waits for one"
        session.output.note(f"! write /answer ID ANSWER{known}", "warning")
        return
    try:
        given = read_answer(pending[effect_id], value.strip(), session.agent.config.offered)
    except CommandError as error:
        session.output.note(f"! {error}", "warning")
        return
    _in_a_turn(session, lambda: session.turn(lambda: session.agent.answer(effect_id, given)))


def _cancel(session: Session, _: str) -> None:
    if not session.agent.cancel("the user asked to stop"):
        session.output.note("nothing waits for an answer", "dim")


COMMANDS: Mapping[str, Callable[[Session, str], None]] = {
    "/help": lambda session, _: session.output.notes(HELP.splitlines()),
    "/tools": lambda session, _: session.output.notes(tool_lines(session.agent)),
    "/tasks": _show_tasks,
    "/plan": _show_plan,
    "/context": _show_context,
    "/mode": _show_mode,
    "/model": _show_model,
    "/policy": _policy,
    "/compact": _compact,
    "/undo": _undo,
    "/redo": lambda session, _: _put_back(session, {"redo": True}),
    "/reset": _reset,
    "/answer": _answer,
    "/cancel": _cancel,
}
"""The chat commands, by first word. Each receives the rest of the line."""


def greeting(agent: Agent) -> str:
    """Return the first line of a chat."""
    info = agent.model.describe()
    count = len(agent.config.offered)
    tools = f"{count} tool{'' if count == 1 else 's'}" if count else "no tools"
    known = ", ".join((f"{info.name} ({info.backend})", tools, *agent.describe().confinement))
    return f"{known}; /help says what can be typed, Ctrl-D leaves"


def tool_lines(agent: Agent) -> Iterator[str]:
    """Yield the tools with their descriptions for the model."""
    tools = agent.config.offered
    width = max((len(shown_name(tool.name)) for tool in tools), default=0)
    for tool in tools:
        asks = "(asks) " if tool.approval else ""
        yield f"{shown_name(tool.name):{width}}  {asks}{' '.join(tool.description.split())}"
    if not tools:
        yield "no tools"


def policy_lines(agent: Agent) -> Iterator[str]:
    """Yield the rules for calls. The most severe matching rule decides."""
    rules: Policy = agent.config.policy
    guarded = {rule for tool in agent.config.tools if tool.command for rule in shell_rules(tool.name)}
    yield f"mode: {agent.state.mode}"
    yield from _rule_lines("policy", rules, [rule for rule in rules.rules if rule not in guarded])
    for number, layer in enumerate(rules.layers, 1):
        yield from _rule_lines(f"layer {number} below it", layer, layer.rules)
    protections = [rule for rule in rules.rules if rule in guarded]
    if protections:
        yield "protections, which no answer lifts:"
        yield from map(_rule, protections)
    asking = [tool.name for tool in agent.config.tools if tool.approval]
    if asking:
        yield f"tools that ask for themselves: {', '.join(map(shown_name, asking))}"
    remembered = agent.remembered
    yield "from now on, as you said:" if remembered else "from now on: nothing was said"
    for number, rule in enumerate(remembered, 1):
        yield f"  {number}{_rule(rule)}"
    if remembered:
        yield "/policy forget N takes one back, /policy forget all takes back all"


def _rule_lines(name: str, ruled: Policy | Layer, rules: Iterable[Rule]) -> Iterator[str]:
    listed = list(rules)
    yield f"{name}: what no rule is for is {OTHERWISE[ruled.default]}{':' if listed or ruled.allow_only else ''}"
    yield from map(_rule, listed)
    if ruled.allow_only:
        yield f"  only   {', '.join(shown_name(text, LONGEST_LINE) for text in ruled.allow_only)}"


OTHERWISE = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def _rule(rule: Rule) -> str:
    reason = f"  ({shown_name(rule.reason)})" if rule.reason else ""
    return f"  {rule.action:<6} {shown_name(rule.tool, LONGEST_LINE)}{reason}"
