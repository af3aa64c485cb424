"""Ask whether a call may run, and read the answer: for this call, from now on, or with other arguments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from cognition import ConfigError, ToolCall, ToolSpec
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.policy import proposed_rules, remembered_rule
from cognition.values.messages import json_object_text
from interpreters.cli._errors import CommandError
from interpreters.cli.options.user_modules import load_approver
from interpreters.cli.screen.preview_lines import is_cut, preview_rows, wrap
from interpreters.cli.screen.render import call_text
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import err
from interpreters.cli.session._call_editor import edit_arguments, find_changes
from interpreters.cli.session._prompt import Prompt
from interpreters.cli.session.answers import APPROVALS
from interpreters.loop.program.approvals import NOBODY, Approval, ApprovalRequest, Approve
from interpreters.loop.program.pending import LATER
from interpreters.tools.previews import Preview

QUESTION = "[y]es, [n]o, [a]lways, ne[v]er, [e]dit, [h]elp: "
SHOW_ALL = "[s]how all of it, "
REASON = "reason (Enter: none): "
HELP = """\
y  yes, this call may run
n  no, and then a reason that the model reads; or at once: n use the other
   file
a  always: this call may run, and from now on what a rule allows that you
   choose
v  never: this call may not run, and from now on nothing that a rule names
   that you choose
e  edit the arguments, in VISUAL or EDITOR, or on a line; what the call would
   do then is shown again before it runs
s  show all, where a call or what it would do is too long
Behind │ stands what the call would do, behind ┆ the rest of a line, behind =
what a line is in ASCII, where it may look like something else."""

WORDS = {**APPROVALS, "show": "s", "help": "h", "?": "h"}
"""The accepted words besides the letters. No other text counts: "you must not" is not a yes."""

NO_ANSWER = "that is no answer: one of the letters, or its word; to say why not, n and the reason"

EACH = "  A narrower rule of your own, such as {name}(git:*), has to cover each command in the line."

LONGEST_CALL = 2000
"""Characters of a call shown until the user asks for the whole call."""


class ApprovalDialog:
    """One question, until it is answered."""

    def __init__(self, request: ApprovalRequest, person: Prompt) -> None:
        self._request, self._person = request, person
        self._tool = request.tool or ToolSpec(request.call.name)
        self._call = request.call
        self._arguments: dict[str, Any] | None = None
        """The arguments as edited by the user."""
        self._preview: Preview | None = None
        self._is_cut = False
        """Whether the first view omits anything."""

    def ask(self) -> Approval:
        """Ask until the user has answered.

        Raises:
            KeyboardInterrupt, Terminated: the question waits in the recording, and the command must end.
        """
        self._person.output.clear()
        self._show()
        return self._person.ask(
            "the call",
            lambda: SHOW_ALL + QUESTION if self._is_cut else QUESTION,
            self._read,
            nobody=Approval(False, "nobody answered"),
            stopped=Approval(False, "the user asked to stop"),
        )

    def _show(self) -> None:
        self._preview = self._request.preview(self._arguments)
        whole = call_text(self._call, whole=True)
        self._is_cut = len(whole) > LONGEST_CALL
        if self._preview is not None:
            self._is_cut = is_cut(self._preview) or call_text(self._call) != whole or self._is_cut
        self._write()
        self._person.discard_typed()

    def _write(self, *, whole: bool = False) -> None:
        longest = None if whole else LONGEST_CALL
        reason = "your arguments" if self._arguments is not None else self._request.reason
        lines = question_lines(self._call, reason, longest, brief=self._preview is not None and not whole)
        columns, preview = self._person.columns, self._preview
        rows = ((row, style) for line, style in lines for row in wrap(line, "", columns))
        shown = () if preview is None else preview_rows(preview, columns, whole=whole)
        self._person.output.attempt(lambda: err().write_lines(chain(rows, shown), whole=True))

    def _read(self, line: str) -> Approval | None:
        typed = line.casefold()
        match WORDS.get(typed, typed):
            case "y":
                return Approval(True, arguments=self._arguments)
            case "a" | "v" as letter:
                return self._ask_for_rule(allowed=letter == "a")
            case "e":
                self._edit()
            case "s" if self._is_cut:
                self._write(whole=True)
            case "h":
                for one in HELP.splitlines():
                    self._person.tell(one, "dim")
            case _ if typed.startswith("n"):  # "nope" and "no, the other file" too: to refuse does no harm
                reason = line.partition(" ")[2].strip() or self._person.line(REASON)
                return Approval(False, reason or "the user said no")
            case _ if typed:
                self._person.tell(NO_ANSWER, "dim")
            case _:
                pass
        return None

    def _edit(self) -> None:
        made = edit_arguments(self._call.arguments, self._person)
        if made is None:
            self._person.tell("the arguments are as they were", "dim")
            return
        call = self._request.call
        self._arguments = find_changes(call.arguments, made)
        self._call = call if self._arguments is None else ToolCall(call.id, call.name, json_object_text(made))
        self._show()

    def _ask_for_rule(self, *, allowed: bool) -> Approval | None:
        """Ask for a rule that applies from now on. Returns None to go back to the question."""
        rules = proposed_rules(self._call, self._tool)
        for number, rule in enumerate(rules, 1):
            all_of_it = ", every call of this tool" if rule == self._tool.name else ""
            in_ascii = "" if rule.isascii() else f"  = {ascii(rule)[1:-1]}"
            self._person.tell(f"  {number}  {shown_name(rule, LONGEST_LINE)}{all_of_it}{in_ascii}", "plain")
        if len(rules) == 1 and self._tool.command:
            self._person.tell(EACH.format(name=self._tool.name), "dim")
        count = f"1 to {len(rules)}" if len(rules) > 1 else "1"
        does = "runs" if allowed else "is refused"
        while line := self._person.line(f"what {does} from now on: {count}, or a rule of your own (Enter: back): "):
            rule = rules[int(line) - 1] if line in map(str, range(1, len(rules) + 1)) else line
            rule = "" if rule == self._tool.name else rule
            try:
                remembered_rule("allow" if allowed else "deny", rule, self._call, self._tool)
            except ConfigError as error:
                self._person.tell(f"! {shown_name(str(error), LONGEST_LINE)}", "warning")
                continue
            if allowed:
                return Approval(True, always=True, rule=rule, arguments=self._arguments)
            return Approval(False, "the user said never", always=True, rule=rule)
        return None


def question_lines(
    call: ToolCall, reason: str, longest: int | None, *, brief: bool = False
) -> Iterator[tuple[str, Style]]:
    """Yield the question.

    The values of the call are JSON, so no text can imitate anything outside its quotes. If the call has characters
    beyond ASCII, which could look like other letters (Cyrillic and Latin), a second line shows it in ASCII.

    Args:
        call: the call to approve.
        reason: why the user is asked.
        longest: characters shown of the call. A longer call is cut in the middle, with the number of omitted
            characters. None for all.
        brief: show only the beginning of long arguments, since a preview follows.
    """
    whole = call_text(call, whole=True)
    text = call_text(call) if brief else whole
    yield f"? {shown_name(text, longest)}: {shown_name(reason or 'may it run?')}", "warning"
    if not whole.isascii():
        plain = (text if not text.isascii() else whole).encode("ascii", "backslashreplace").decode()
        yield f"  in ASCII: {shown_name(plain, longest)}", "warning"


def approver(chosen: str | None, person: Prompt) -> Approve | None:
    """Return the ``approve`` function for ``--approve``; None to refuse such calls.

    Raises:
        CommandError: the choice can't be used.
    """
    match chosen:
        case "all":
            return lambda _request: True
        case "none":
            return None
        case "later" if person.recording is None:
            raise CommandError("--approve later lets calls wait in the recording; give --record FILE too")
        case "later":
            return lambda _request: LATER
        case "ask" if not person.is_here:
            raise CommandError("--approve ask needs a terminal to ask at, and no --json; or let --approve later wait")
        case None | "ask" if person.is_here:
            return lambda request: ApprovalDialog(request, person).ask()
        case None:
            return partial(_refuse, person)
        case name:
            return load_approver(name)  # type: ignore[no-any-return]  # what it returns is checked where it is read


def _refuse(person: Prompt, request: ApprovalRequest) -> Approval:
    person.unasked.setdefault(request.call.name)
    return Approval(False, NOBODY)


def refused_lines(person: Prompt) -> Iterator[str]:
    """Describe the calls refused in a turn because no user was there to ask, and how to allow them."""
    if person.unasked:
        names = ", ".join(shown_name(name) for name in person.unasked)
        person.unasked.clear()
        lets_run = "--approve all lets such calls run, later lets them wait, and MODULE:NAME decides"
        yield f"! a call was refused, since nobody was here to approve it; {lets_run}: {names}"
