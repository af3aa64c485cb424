"""What a program says of a call beyond yes and no: by a rule, with other arguments, and taken back. In every way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AskApproval,
    CogstepError,
    ConfigError,
    EffectId,
    Limits,
    Policy,
    Rule,
    ToolCall,
    ToolMessage,
)
from cognition.steps.decisions import CallJudged
from interpreters import (
    LATER,
    Agent,
    Approval,
    ApprovalRequest,
    AsyncAgent,
    HookAnswer,
    ToolContext,
    events,
    replay,
    tool,
)
from interpreters.hosting import AgentHost, HostError
from interpreters.loop.program.approvals import as_input, spec_of
from interpreters.recording.sessions import read_transcript
from interpreters.testing.fakes import FunctionModel, ScriptedModel, call
from tests.interpreters.hosting.common import PATIENCE
from tests.interpreters.ways import Talk, Way, every_way

NOTE = "The user changed the arguments of this call to "


@tool(command="command", approval=True)
def sh(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(paths=("path",), approval=True)
def write(path: str, text: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


def over_a_host(
    model: Any, *says: str, tools: Any = (), use: Callable[[Any], object] | None = None, **options: Any
) -> Talk:
    """Say these things to a session of a host, which is another thread."""
    with AgentHost.in_thread(model) as host:
        handle = host.open("s", tools, **options)
        if use is not None:
            use(handle)
        results = tuple(handle.run(text) for text in says)

        class Seen:
            history = tuple(message for result in results for message in result.messages)

        return Talk(results, Seen())  # type: ignore[arg-type]  # of its state the history is read alone


WAYS: list[Any] = [*every_way.args[1], over_a_host]
each_way = pytest.mark.parametrize("talk", WAYS)


def commands(*lines: str) -> list[Any]:
    return [*(call("sh", command=line) for line in lines), "Done."]


@each_way
def test_a_rule_is_remembered_and_asked_about_no_more(talk: Way) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request)
        return Approval(True, always=True, rule=request.rules[1])

    done = talk(
        ScriptedModel(commands("git commit -m x", "git commit -m y", "git push")), "Go!", tools=[sh], approve=approve
    )

    assert [request.call.arguments["command"] for request in asked] == ["git commit -m x", "git push"]
    assert [request.rules for request in asked] == [
        ("sh(git commit -m x)", "sh(git commit:*)", "sh"),
        ("sh(git push)", "sh(git push:*)", "sh"),
    ]
    assert [status for _, status in done.tool_results] == ["ok"] * 3


@each_way
def test_a_refusal_by_a_rule_holds_from_now_on(talk: Way) -> None:
    answers = iter([Approval(False, "never push", always=True, rule="sh(git push:*)"), Approval(True)])

    done = talk(
        ScriptedModel(commands("git push", "git -C x push -f", "ls")),
        "Go!",
        tools=[sh],
        approve=lambda _: next(answers),
    )

    assert done.tool_results == [
        ("Error: the user refused this call: never push", "refused"),
        ("Error: this call is not permitted: never push", "refused"),
        ("ran ls", "ok"),
    ]


@each_way
def test_the_call_runs_as_the_user_has_edited_it(talk: Way) -> None:
    seen: list[ToolCall] = []

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.CallTool):
            seen.append(event.value.call)

    done = talk(
        ScriptedModel(commands("rm -rf build")),
        "Go!",
        tools=[sh],
        approve=lambda _: Approval(True, arguments={"command": "rm -rf build/tmp"}),
        observers=[watch],
    )

    assert done.tool_results == [(f'ran rm -rf build/tmp\n{NOTE}{{"command": "rm -rf build/tmp"}}', "ok")]
    assert [one.arguments for one in seen] == [{"command": "rm -rf build/tmp"}]


@each_way
def test_an_edit_is_no_way_around_policy(talk: Way) -> None:
    done = talk(
        ScriptedModel(commands("ls")),
        "Go!",
        tools=[sh],
        policy=Policy((Rule("deny", "sh(curl:*)", "no network"),)),
        approve=lambda _: Approval(True, arguments={"command": "true && curl x"}),
    )

    ((content, status),) = done.tool_results
    assert content.startswith("Error: this call is not permitted any more: no network")
    assert status == "refused"


@each_way
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("sh(git push:*)", "does not cover the call that is approved"),
        ("write", "the question was about 'sh'"),
        ("*", "the question was about 'sh'"),
        ("sh(a; b)", "it is for one command"),
    ],
)
def test_a_rule_that_is_none_for_the_call_is_the_program_s_own_fault(talk: Way, rule: str, message: str) -> None:
    model = ScriptedModel([call("sh", command="git commit")])

    with pytest.raises(CogstepError, match=message):
        talk(model, "Go!", tools=[sh], approve=lambda _: Approval(True, always=True, rule=rule))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Approval(True, rule="sh(ls:*)"), "give always=True with it"),
        (lambda: Approval(True, always=True, rule="sh("), "rule pattern"),
        (lambda: Approval(False, arguments={"command": "ls"}), "leave them out of a refusal"),
        (lambda: Approval(True, arguments={"command": {1, 2}}), "Approval: arguments have no form in JSON"),
        (lambda: HookAnswer(arguments={"command": float("nan")}), "HookAnswer: arguments have no form in JSON"),
    ],
)
def test_an_approval_that_can_t_be_meant_is_refused_where_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_rule_is_held_against_the_call_as_it_was_edited() -> None:
    asked = AskApproval(EffectId("1.1.1"), ToolCall("c", "sh", {"command": "git push"}))
    answer = Approval(True, always=True, rule="sh(ls:*)", arguments={"command": "ls -l"})

    given = as_input(asked, answer, tool=sh.spec)

    assert given.rule == "sh(ls:*)"
    assert given.arguments_json == '{"command": "ls -l"}'  # type: ignore[union-attr]  # an approval
    with pytest.raises(ConfigError, match="does not cover"):
        as_input(asked, Approval(True, always=True, rule="sh(git push:*)", arguments={"command": "ls"}), tool=sh.spec)


def test_what_is_known_of_a_tool_is_known_of_the_engine_s_own_too() -> None:
    assert spec_of({"sh": sh}, "sh") is sh.spec
    worker = spec_of({}, "spawn_worker")
    assert worker is not None
    assert worker.name == "spawn_worker"
    assert spec_of({}, "nowhere") is None
    assert ApprovalRequest(ToolCall("c", "nowhere"), "").rules == ("nowhere",)
    assert ApprovalRequest(ToolCall("c", "sh", {"command": "ls"}), "", tool=sh.spec).rules == (
        "sh(ls)",
        "sh(ls:*)",
        "sh",
    )


# ---------------------------------------------------------------------------------------------- answers that come later


def test_an_answer_that_comes_later_says_as_much(tmp_path: Path) -> None:
    """In another process: the recording is resumed, answered, and replays."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(commands("git commit")[:1]), [sh], approve=lambda _: LATER, journal=path) as agent:
        (asked,) = agent.run("Go!").pending

    model = ScriptedModel([call("sh", command="git status -s"), "Done."])
    with Agent.resume(path, model, [sh], approve=lambda _: Approval(False)) as agent:
        with pytest.raises(ConfigError, match="does not cover"):
            agent.answer(asked.effect_id, Approval(True, always=True, rule="sh(ls)"))
        answer = Approval(True, always=True, rule="sh(git status:*)", arguments={"command": "git status"})
        assert agent.answer(asked.effect_id, answer).text == "Done."
        assert agent.remembered == (Rule("allow", "sh(git status:*)"),)
        results = [message.content for message in agent.state.history if isinstance(message, ToolMessage)]
    assert results == [f'ran git status\n{NOTE}{{"command": "git status"}}', "ran git status -s"]
    assert replay(path).same


def test_a_future_and_a_coroutine_may_have_it_too() -> None:
    async def approve(_request: ApprovalRequest) -> Approval:
        await asyncio.sleep(0)
        return Approval(True, arguments={"command": "pwd"})

    def in_future(_request: ApprovalRequest) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(Approval(True, arguments={"command": "pwd"}))
        return answer

    async def main() -> str:
        async with AsyncAgent(ScriptedModel(commands("ls")), [sh], approve=approve) as agent:
            await agent.run("Go!")
            return next(one.content for one in agent.state.history if isinstance(one, ToolMessage))

    with Agent(ScriptedModel(commands("ls")), [sh], approve=in_future) as agent:
        agent.run("Go!")
        told = next(one.content for one in agent.state.history if isinstance(one, ToolMessage))

    assert asyncio.run(main()) == told
    assert told.startswith("ran pwd")


# ---------------------------------------------------------------------------------------------------------- forgetting


ALWAYS = Approval(True, always=True)


@each_way
def test_what_was_said_from_now_on_is_seen_and_taken_back(talk: Way) -> None:
    asked: list[str] = []
    agents: list[Any] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request.call.arguments["command"])
        return Approval(True, always=True, rule=request.rules[0])

    @tool(read_only=True)
    def forget(pattern: str) -> str:
        """Forget something."""
        assert pattern in [rule.tool for rule in agents[0].remembered]
        agents[0].forget(pattern)
        return "forgotten"

    lines = commands("ls", "pwd", "ls")
    model = ScriptedModel([*lines[:3], call("forget", pattern="sh(ls)"), *commands("pwd", "ls")])
    talk(model, "Go!", tools=[sh, forget], approve=approve, use=agents.append)

    assert asked == ["ls", "pwd", "ls"]


@pytest.mark.parametrize("kind", ["sync", "asyncio", "host"])
def test_between_turns(kind: str) -> None:
    def use(agent: Any) -> None:
        assert agent.remembered == (Rule("allow", "sh"), Rule("allow", "write"))
        with pytest.raises(
            (ConfigError, HostError), match="'ssh' is no rule that is remembered; there is 'sh', 'write'"
        ):
            agent.forget("sh", "ssh")
        assert len(agent.remembered) == 2
        agent.forget("sh")
        assert agent.remembered == (Rule("allow", "write"),)
        agent.forget()
        assert agent.remembered == ()
        agent.forget()
        with pytest.raises((ConfigError, HostError), match="there is nothing"):
            agent.forget("sh")

    model = ScriptedModel([[call("sh", command="ls"), call("write", path="x")], "Done."])
    given: Any = {"approve": lambda _: ALWAYS}
    if kind == "sync":
        with Agent(model, [sh, write], **given) as agent:
            agent.run("Go!")
            use(agent)
        with pytest.raises(CogstepError, match="closed"):
            agent.forget()
    elif kind == "host":
        with AgentHost.in_thread(model) as host:
            handle = host.open("a", [sh, write], **given)
            handle.run("Go!")
            use(handle)
            handle.dispose()
            for ask in (handle.forget, lambda: handle.remembered):
                with pytest.raises(HostError, match="no session 'a'"):
                    ask()
    else:

        async def main() -> None:
            async with AsyncAgent(model, [sh, write], **given) as agent:
                await agent.run("Go!")
                use(agent)

        asyncio.run(main())


@every_way
def test_what_is_forgotten_is_on_file(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    agents: list[Any] = []

    @tool(read_only=True)
    def forget() -> str:
        """Forget everything."""
        agents[0].forget()
        return "forgotten"

    model = ScriptedModel([call("sh", command="ls"), call("forget"), call("sh", command="ls"), "Done."])
    done = talk(
        model, "Go!", tools=[sh, forget], approve=lambda _: Approval(True, always=True), use=agents.append, journal=path
    )

    report = replay(path)
    assert report.same
    assert report.state == done.state
    notes = [entry.note for turn in read_transcript(path).turns for entry in turn.entries if entry.note]
    assert notes == [
        "The user allowed `sh`, from now on.",
        "The user took back what was said from now on: all of it.",
        "The user allowed `sh`, from now on.",
    ]


@every_way
def test_what_is_forgotten_holds_for_workers_at_once(talk: Way) -> None:
    """They had what their parent remembered when they were spawned; they may never do more than it."""
    agents: list[Any] = []
    heard = threading.Event()
    asked: list[str] = []

    @tool(read_only=True)
    def take_back(context: ToolContext[Any]) -> str:
        """Take back."""
        agents[0].forget()
        context.progress("taken back")  # behind it in the parent's mailbox
        assert heard.wait(PATIENCE)
        return "taken back"

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.ToolProgress):
            heard.set()

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request.session)
        return Approval(True, always=True)

    def reply(request: Any) -> Any:
        said = request.messages[0].text
        done = [message.name for message in request.messages if isinstance(message, ToolMessage)]
        if said == "work":
            steps: list[Any] = [call("sh", command="ls"), call("take_back"), call("sh", command="ls"), "Worked."]
        else:
            steps = [call("sh", command="ls"), call("spawn_worker", name="w", objective="work"), "Done."]
        return steps[len(done)]

    talk(
        FunctionModel(reply),
        "Go!",
        tools=[sh, take_back],
        features=["workers"],
        approve=approve,
        use=agents.append,
        observers=[watch],
        session="s",
    )

    assert asked[0] == "s"
    assert len(asked) == 2
    assert asked[1].startswith("s/")


# --------------------------------------------------------------------------------------------------------- what is told


@each_way
def test_what_rules_decide_is_told_to_observers(talk: Way) -> None:
    told: list[CallJudged] = []

    def watch(event: events.Event) -> None:
        if isinstance(event.value, events.CallJudged):
            told.append(event.value)

    policy = Policy((Rule("allow", "sh(ls:*)"), Rule("ask", "sh(git push:*)", "look twice"), Rule("deny", "sh(rm:*)")))
    talk(
        ScriptedModel(commands("ls", "git push", "rm x", "pwd")),
        "Go!",
        tools=[sh],
        policy=policy,
        approve=lambda _: True,
        observers=[watch],
    )

    assert told == [
        CallJudged("call-1-1-1", "allow", "sh(ls:*)"),
        CallJudged("call-1-2-1", "ask", "sh(git push:*)", "look twice"),
        CallJudged("call-1-3-1", "deny", "sh(rm:*)"),
    ]


def test_a_transcript_says_who_decided_what(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    policy = Policy((Rule("allow", "sh(ls:*)"), Rule("ask", "sh(git push:*)", "look twice"), Rule("deny", "sh(rm:*)")))
    answers = iter(
        [
            Approval(True, arguments={"command": "git push -n"}),
            Approval(False, "no", always=True, rule="sh(pwd)"),
            Approval(True, always=True, rule="write(src/**)"),
        ]
    )
    calls = commands("ls", "git push", "rm x", "pwd", "pwd")[:-1]
    model = ScriptedModel([*calls, call("write", path="src/a"), call("write", path="src/b"), "Done."])
    given: Any = {"policy": policy, "approve": lambda _: next(answers), "limits": Limits(refusals=9)}
    with Agent(model, [sh, write], journal=path, **given) as agent:
        agent.run("Go!")
        agent.set_mode("plan")
        agent.forget("sh(pwd)")

    notes = [entry.note for turn in read_transcript(path).turns for entry in turn.entries if entry.note]
    assert notes == [
        "`sh` was allowed by the rule `sh(ls:*)`.",
        "`sh` was to be asked about by the rule `sh(git push:*)`: look twice.",
        'The user allowed `sh` with the arguments `{"command": "git push -n"}`.',
        "`sh` was denied by the rule `sh(rm:*)`.",
        "`sh` was refused, from now on for `sh(pwd)`: no.",
        "`sh` was denied by the rule `sh(pwd)`: no.",
        "The user allowed `write`, from now on for `write(src/**)`.",
        "`write` was allowed by the rule `write(src/**)`.",
        "The mode was set to plan.",
        "The user took back what was said from now on: `sh(pwd)`.",
    ]


def test_a_denial_without_a_rule_is_told_too(tmp_path: Path) -> None:
    for given, expected in (
        ({"policy": Policy(default="deny")}, "`sh` was denied by default."),
        ({"policy": Policy(allow_only=("write",))}, "`sh` was denied: only write may be called here."),
    ):
        path = tmp_path / f"{len(expected)}.jsonl"
        with Agent(ScriptedModel(commands("ls")), [sh], journal=path, **given) as agent:  # type: ignore[arg-type]
            agent.run("Go!")

        notes = [entry.note for turn in read_transcript(path).turns for entry in turn.entries if entry.note]
        assert notes == [expected]
