"""Every place where text of strangers may come to stand on a screen, held to what may be written there.

Surfaces are a table: each runs the real command, in this process, on streams of bytes. Texts are another
(``tests/interpreters/hostile_text.py``). Both are tried in every combination.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import frozen

from cognition import ConfigError, Failure, MalformedToolCall
from interpreters import Agent, Preview, ToolContext, ToolError, fakes, tool, toolbox
from interpreters.cli.main import main
from interpreters.cli.reports import environment_report as machine
from interpreters.cli.reports.environment_report import Finding
from interpreters.cli.session import session
from interpreters.testing.fakes import Reply, ScriptedModel, call
from interpreters.tools.tool import Tool
from tests.interpreters.hostile_text import HOSTILE, offences
from tests.interpreters.journals import rewritten

Kind = Literal["line", "text", "rows"]
"""What a text may do to the screen: stand on its line in a bounded length, or have its own lines, as an answer has."""


class Stream(io.TextIOWrapper):
    """A stream whose bytes can be looked at, which may say that it is a terminal."""

    def __init__(self, encoding: str, on_terminal: bool) -> None:
        self.bytes = io.BytesIO()
        self.on_terminal = on_terminal
        super().__init__(self.bytes, encoding=encoding, errors="strict", newline="", write_through=True)

    def isatty(self) -> bool:
        return self.on_terminal


class Typing(io.StringIO):
    """What is typed, on a terminal or not."""

    def __init__(self, text: str, on_terminal: bool) -> None:
        super().__init__(text)
        self._on_terminal = on_terminal

    def isatty(self) -> bool:
        return self._on_terminal


class World:
    """A directory to run commands in, and a hostile text to put somewhere."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch, encoding: str, on_terminal: bool) -> None:
        self.place, self.patch = place, patch
        self.encoding, self.on_terminal = encoding, on_terminal
        self.written: list[bytes] = []

    def cogstep(self, *arguments: str, input: str = "", typed: bool = False) -> int:
        """Run the command; what it writes is kept."""
        streams = Stream(self.encoding, self.on_terminal), Stream(self.encoding, self.on_terminal)
        with self.patch.context() as patch:
            patch.setattr(sys, "stdin", Typing(input, typed))
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            code = main(arguments)
        for stream in streams:
            self.written.append(stream.bytes.getvalue())
        return code

    def model(self, *replies: Any, name: str = "scripted", warning: str = "") -> None:
        """The model that is loaded from now on."""
        model = ScriptedModel(iter(replies), name=name)
        if warning:
            from attrs import evolve

            model._info = evolve(model._info, warnings=(warning,))
        self.patch.setattr(session, "load_model", lambda *_, **__: model)

    def tools(self, *tools: Tool[..., Any]) -> None:
        """The tools that there are from now on."""
        self.patch.setattr(toolbox, "standard_tools", lambda _root: tools)

    def file(self, name: str, content: str | bytes) -> str:
        """A file; the name of one that can't be made is good enough for a message."""
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        if name.endswith(".jsonl"):
            for other in self.place.glob("*.jsonl"):
                other.unlink()
        with contextlib.suppress(OSError, ValueError):  # too long, or with a NUL in it
            (self.place / name).write_bytes(data)
        return name

    def recording(self, evil: str, *, name: str = "a.jsonl", text: str = "", answer: str = "") -> str:
        """A recorded session that has the text in everything that was said and named."""

        @tool
        def look(what: str) -> str:
            return f"saw {what}"

        replies = [
            Reply("", (call("look", what=evil),), reasoning=evil),
            Reply("", (call(evil),)),
            Reply("", malformed=(MalformedToolCall(evil, evil),)),
            Reply(answer or f"An answer {evil}"),
        ]
        (self.place / name).unlink(missing_ok=True)
        model = ScriptedModel(replies, context_tokens=10**8)
        agent = Agent(model, [look], evil, journal=self.place / name, session=evil)
        with agent:
            agent.run(text or f"A question {evil}")
        return name

    def changed(self, path: str, change: Callable[[int, Any], Any]) -> str:
        """A recording with other data in it, sealed anew."""
        rewritten(self.place / path, lambda number, data: change(number - 1, data))
        return path


def recorded_by_us(world: World, question: str = "Hi?", content: str = "391") -> str:
    """A recording that the command itself has made, of one call."""
    (world.place / "ours.jsonl").unlink(missing_ok=True)
    world.model(call("calculate", expression="17 * 23"), "It is 391.")
    world.cogstep("run", question, "--record", "ours.jsonl")
    world.written.clear()
    if content != "391":
        world.changed("ours.jsonl", lambda _, data: _content(data, content))
    return "ours.jsonl"


def _content(data: Any, content: str) -> Any:
    if isinstance(data, dict) and data.get("input", {}).get("type") == "tool_returned":
        data["input"]["content"] = content
    return data


def gguf(**pairs: str) -> bytes:
    """The header of a GGUF file: texts by name."""

    def text(value: str) -> bytes:
        data = value.encode("utf-8", "surrogatepass")
        return struct.pack("<Q", len(data)) + data

    body = b"".join(text(key.replace("_", ".")) + struct.pack("<I", 8) + text(value) for key, value in pairs.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body + bytes(64)


@tool
def look(what: str = "") -> str:
    """Look at something."""
    return what


def run_with_tool(act: Callable[[str], object]) -> Callable[[World, str], None]:
    """A run in which a tool does something."""

    def surface(world: World, evil: str) -> None:
        @tool
        def look() -> str:
            act(evil)
            return "seen"

        world.tools(look)
        world.model(call("look"), "Done.")
        world.cogstep("run", "Hi")

    return surface


def in_a_thread(evil: str) -> None:
    def fail() -> None:
        raise ValueError(evil)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def refuse(evil: str) -> None:
    raise ToolError(evil)


def progress(world: World, evil: str) -> None:
    @tool
    def look(context: ToolContext[Any]) -> str:
        context.progress(evil)
        return "seen"

    world.tools(look)
    world.model(call("look"), "Done.")
    world.cogstep("run", "Hi")


def run(*replies: Callable[[str], Any], options: tuple[str, ...] = ()) -> Callable[[World, str], None]:
    """A run in which the model says something."""

    def surface(world: World, evil: str) -> None:
        world.tools(look)
        world.model(*(reply(evil) for reply in replies), "Done.", "Done.")
        world.cogstep("run", "Hi", *options)

    return surface


def says(*arguments: str, **options: Any) -> Callable[[World, str], None]:
    """A command with the text in its arguments, where they say EVIL."""
    return lambda world, evil: world.cogstep(*(one.replace("EVIL", evil) for one in arguments), **options) and None


def about(*arguments: str) -> Callable[[World, str], None]:
    """A command about a recording with the text in everything that was said and named."""

    def surface(world: World, evil: str) -> None:
        path = world.recording(evil)
        world.cogstep(*(one.replace("FILE", path).replace("EVIL", evil) for one in arguments))

    return surface


def named(*arguments: str, content: str | bytes = "no recording\n") -> Callable[[World, str], None]:
    """A command about a file that has the text in its name."""

    def surface(world: World, evil: str) -> None:
        path = world.file(f"{evil.replace('/', '_')}.jsonl", content)
        world.cogstep(*(one.replace("FILE", path) for one in arguments))

    return surface


def with_file(name: str, content: Callable[[str], str | bytes], *arguments: str) -> Callable[[World, str], None]:
    """A command about a file that has the text in it."""

    def surface(world: World, evil: str) -> None:
        world.file(name, content(evil))
        world.cogstep(*arguments)

    return surface


def divergence(*options: str) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        path = recorded_by_us(world)

        def change(_: int, data: Any) -> Any:
            for decision in data.get("decisions", ()):
                if decision["type"] == "turn_finished":
                    decision["outcome"]["text"] = evil
                    decision["outcome"][evil] = evil
            return data

        world.cogstep("replay", world.changed(path, change), *options)

    return surface


def rehearsal(*options: str) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        world.cogstep("rehearse", recorded_by_us(world, content=evil), *options)

    return surface


def header(**fields: Any) -> Callable[[World, str], None]:
    """A recording with the text in its header."""

    def surface(world: World, evil: str) -> None:
        path = recorded_by_us(world)
        world.changed(
            path, lambda number, data: {**data, **fields, "session": evil, "engine": evil} if not number else data
        )
        for command in (["replay"], ["rehearse"], ["resume"], ["sessions", "show"], ["sessions", "list"]):
            world.cogstep(*command, path)

    return surface


def input_tag(world: World, evil: str) -> None:
    path = recorded_by_us(world)
    world.changed(path, lambda number, data: {**data, "input": {"type": evil, evil: evil}} if number == 2 else data)
    for command in (["replay"], ["sessions", "show"], ["sessions", "list"], ["rehearse"]):
        world.cogstep(*command, path)


def approval(answers: str, reason: bool = False) -> Callable[[World, str], None]:
    """A question about a call with the text in it, on a terminal."""

    def surface(world: World, evil: str) -> None:
        @tool(approval=True)
        def look(what: str = "") -> str:
            return "seen"

        world.tools(look)
        world.model(call("look", what=evil), "Done.")
        world.on_terminal = True
        world.cogstep("run", "Hi", input=answers, typed=True)

    return surface


def previewed(answers: str, preview: Callable[[str], object]) -> Callable[[World, str], None]:
    """A question about a call that is previewed, with the text in what is shown."""

    def surface(world: World, evil: str) -> None:
        def shown(command: str) -> object:
            given = preview(evil)
            if isinstance(given, Exception):
                raise given
            return given

        @tool(approval=True, command="command", preview=shown)
        def look(command: str = "") -> str:
            return "seen"

        world.tools(look)
        world.model(call("look", command=f"ls {evil}"), "Done.")
        world.on_terminal = True
        world.cogstep("run", "Hi", input=answers, typed=True)

    return surface


def chat(typed: Callable[[str], str], name: Callable[[str], str] = lambda _: "m") -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        if name(evil) == evil:
            world.tools(Tool.from_schema(name="look", description=evil, parameters={}, function=lambda _: ""))
        else:
            world.tools(look)
        world.model(f"An answer {evil}", f"An answer {evil}", name=name(evil))
        text = typed(evil)
        world.cogstep("chat", input=f"{text}\n/quit\n", typed=False)

    return surface


def failing_module(world: World, evil: str) -> None:
    world.file("bad.py", f"raise ValueError({evil!r})")
    sys.modules.pop("bad", None)
    world.cogstep("run", "Hi", "--tools", "bad:TOOLS")


def odd_program(world: World, evil: str) -> None:
    world.file("odd.py", f"AGENT = {{{evil!r}: 1}}")
    sys.modules.pop("odd", None)
    world.cogstep("run", "Hi", "--agent", "odd:AGENT")


def asks(answers: str, *, on_terminal: bool = True) -> Callable[[World, str], None]:
    """Questions of the model with the text in them, asked on a terminal or left in a recording."""

    def surface(world: World, evil: str) -> None:
        questions = [{"question": evil, "options": [evil, "no"]}, {"question": "Sure?", "options": ["yes", evil]}]
        feature(world, "--ask", call("ask_user", questions=questions), answers, on_terminal)

    return surface


def plans(answers: str, *, on_terminal: bool = True) -> Callable[[World, str], None]:
    """As ``asks``, with a plan."""

    def surface(world: World, evil: str) -> None:
        feature(world, "--features=plan", call("submit_plan", steps=[evil, evil]), answers, on_terminal)

    return surface


def feature(world: World, option: str, proposed: Any, answers: str, on_terminal: bool) -> None:
    (world.place / "new.jsonl").unlink(missing_ok=True)
    world.model(proposed, "Done.")
    world.on_terminal = on_terminal or world.on_terminal
    world.cogstep("run", "Hi", option, "--no-tools", "--record", "new.jsonl", input=answers, typed=on_terminal)


def features(world: World, evil: str) -> None:
    """What is shown of tasks, notes and workers; a worker's reply has the text too."""
    tasks = [{"title": evil, "status": "open"}]
    world.model(
        call("update_tasks", tasks=tasks), call("remember", text=evil), call("recall", query=evil),
        call("spawn_worker", name=evil, objective=evil), f"It is {evil}", "Done.",
    )  # fmt: skip
    world.cogstep("run", "Hi", "--no-tools", "--features", "tasks,workers", "--notes", "notes.db")


def remembered(world: World, evil: str) -> None:
    """A memory with the text in its headings, its notes and the name of a file."""
    shutil.rmtree(world.place / "m", ignore_errors=True)
    (world.place / "m" / "knowledge").mkdir(parents=True)
    content = f"## {evil}\n\nA plum {evil}\n"
    world.file("m/knowledge/a.md", content)
    world.file(f"m/knowledge/{evil.replace('/', '_')[:80]}.md", content)
    world.cogstep("memory", "search", "plum", "--memory", "m")
    world.cogstep("memory", "search", "plum", "--memory", "m", "--json")
    world.cogstep("memory", "list", "--memory", "m")
    world.cogstep("memory", "add", f"plum {evil}", "--memory", "m")


def remembered_on(world: World, evil: str) -> None:
    (world.place / "m" / "knowledge").mkdir(parents=True, exist_ok=True)
    world.cogstep("memory", "search", "x", "--memory", "m", "--after", evil)


def crash(world: World, evil: str) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError(evil)

    world.patch.setattr(session, "load_model", fail)
    world.cogstep("run", "Hi")


def own_error(world: World, evil: str) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ConfigError(evil)

    world.patch.setattr(session, "load_model", fail)
    world.cogstep("run", "Hi")


def doctor(*options: str) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        findings = iter([Finding(False, evil), Finding(True, "", evil, evil)])
        world.patch.setattr(machine, "probe", lambda *_: next(findings))
        world.patch.setattr(machine, "is_installed", lambda _: True)
        world.patch.setattr(machine, "_version", lambda _: evil)
        world.patch.setattr(machine, "_nvidia", lambda: ((evil, evil), (12, 4)))
        world.patch.setenv("HF_HUB_CACHE", evil.replace("\0", "").encode("utf-8", "replace").decode()[:200])
        world.cogstep("doctor", *options)

    return surface


SERVER = """
import json, sys
evil = json.load(open("evil.json"))
print(evil, file=sys.stderr, flush=True)
if len(sys.argv) > 1:
    sys.exit(1)
schema = {"type": "object", "properties": {evil: {"type": "string", "pattern": "(" + evil}}}
tools = [{"name": "x" + evil, "description": evil, "inputSchema": schema}, {"name": "y", "inputSchema": {}}]
info = {"serverInfo": {"name": evil, "version": evil}, "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
answers = {
    "initialize": {"protocolVersion": "2025-06-18", **info},
    "tools/list": {"tools": [*tools, tools[1]]},
    "prompts/list": {"prompts": [{"name": evil, "arguments": [{"name": evil}]}]},
    "resources/list": {"resources": [{"uri": "a:" + evil, "name": evil}]},
    "resources/templates/list": {"resourceTemplates": []},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        found = answers.get(asked["method"])
        answer = {"result": found} if found else {"error": {"code": -32601, "message": evil}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def mcp_list(world: World, evil: str) -> None:
    """A server that names itself and what it has with the text, and one that says it and ends."""
    (world.place / "evil.json").write_text(json.dumps(evil))
    command = f"{sys.executable} -S {world.file('server.py', SERVER)}"
    world.cogstep("mcp", "list", "--mcp", f"a={command}", "--mcp", f"b={command} ends")


def bench(world: World, evil: str) -> None:
    from interpreters.cli.reports import measurements as measures

    world.patch.setattr(measures, "load_model", lambda *_, **__: fakes.ScriptedModel(iter(["a b"] * 99), name=evil))
    world.cogstep("bench", "--rounds", "1", "--sessions", "1", "--tokens", "2", "--prompt", "32")


def bench_failing(world: World, evil: str) -> None:
    from interpreters.cli.reports import measurements as measures

    replies = iter([Failure(evil, kind="fatal")] * 9)
    world.patch.setattr(measures, "load_model", lambda *_, **__: fakes.ScriptedModel(replies))
    world.cogstep("bench", "--rounds", "1")


def model_name(world: World, evil: str) -> None:
    world.tools(look)
    world.model("Done.", name=evil, warning=evil)
    world.cogstep("run", "Hi")


def glob(*arguments: tuple[str, str]) -> Callable[[World, str], None]:
    """The real file tools, in a directory with a file whose name has the text in it."""

    def surface(world: World, evil: str) -> None:
        world.file(f"{evil.replace('/', '_')[:80]}.txt", f"milk {evil}\nmore milk\n")
        calls = [call("Glob", pattern="*.txt"), call("Grep", pattern="milk"), call("Read", path=f"{evil}.tx")]
        world.model(*calls, "Done.")
        world.cogstep("run", "Hi", "-v")

    return surface


def mlx(**fields: Any) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        (world.place / "model").mkdir(exist_ok=True)
        config = {name: evil if value == "EVIL" else value for name, value in fields.items()}
        world.file("model/config.json", json.dumps(config))
        world.cogstep("run", "Hi", "--model", "model")
        world.cogstep("format", "model")

    return surface


def template(text: Callable[[str], str]) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        world.file("t.jinja", text(evil))
        for more in ([], ["--json"]):
            world.cogstep("format", "t.jinja", *more)
            world.cogstep("parse", world.file("out.txt", "hello"), "--format", "t.jinja", *more)

    return surface


def export_to_a_file(form: str) -> Callable[[World, str], None]:
    def surface(world: World, evil: str) -> None:
        path = world.recording(evil)
        (world.place / "out").unlink(missing_ok=True)
        world.cogstep("sessions", "export", path, "--format", form, "--output", "out")
        world.written.append((world.place / "out").read_bytes().decode().encode(world.encoding, "replace"))

    return surface


def tool_file(evil: str) -> str:
    schema = {"type": "object", "properties": {evil: {"type": "string", "pattern": "(?=x)" + evil, evil: 1}}}
    weak = {"type": "function", "function": {"name": "f", "description": evil, "parameters": schema}}
    return json.dumps([weak, {"type": "function", "function": {"name": evil, "parameters": {"type": evil}}}])


def hermes(evil: str) -> str:
    name = json.dumps({"name": evil, "arguments": {evil: evil}})
    return f"<think>{evil}</think>{evil}<tool_call>\n{name}\n</tool_call><tool_call>\n{{{evil}\n</tool_call>"


@frozen
class Surface:
    """One place."""

    kind: Kind
    run: Callable[[World, str], object]


SURFACES: dict[str, Surface] = {
    # what was typed
    "argparse: a command": Surface("line", says("EVIL")),
    "argparse: an option": Surface("line", says("run", "Hi", "--EVIL")),
    "argparse: more arguments": Surface("line", says("doctor", "EVIL", "EVIL")),
    "argparse: a number": Surface("line", says("run", "Hi", "--seed", "EVIL")),
    "argparse: a choice": Surface("line", says("run", "Hi", "--backend", "EVIL")),
    "argparse: another choice": Surface("line", says("run", "Hi", "--cache-type", "EVIL")),
    "argparse: names": Surface("line", says("run", "Hi", "--tools", "a,,EVIL")),
    "argparse: an age": Surface("line", says("sessions", "prune", "--older-than", "EVIL")),
    "argparse: a size": Surface("line", says("sessions", "prune", "--max-size", "EVIL")),
    "argparse: an action": Surface("line", says("sessions", "EVIL")),
    "run --tools": Surface("line", says("run", "Hi", "--tools", "EVIL")),
    "mcp list --mcp": Surface("line", says("mcp", "list", "--mcp", "EVIL")),
    "mcp list": Surface("rows", mcp_list),
    "run --tools of a module": Surface("line", says("run", "Hi", "--tools", "EVIL:EVIL")),
    "run --tools of no name": Surface("line", says("run", "Hi", "--tools", "json:EVIL")),
    "run --tools of a module that fails": Surface("line", failing_module),
    "run --agent": Surface("line", says("run", "Hi", "--agent", "EVIL:EVIL")),
    "run --agent with odd names": Surface("line", odd_program),
    "run --approve": Surface("line", says("run", "Hi", "--approve", "EVIL")),
    "run --features": Surface("line", says("run", "Hi", "--features", "EVIL")),
    "run --mode": Surface("line", says("run", "Hi", "--mode", "EVIL")),
    "run --notes": Surface("line", says("run", "Hi", "--notes", "EVIL/x")),
    "run --memory": Surface("line", named("run", "Hi", "--memory", "FILE")),
    "memory: a folder": Surface("line", says("memory", "search", "x", "--memory", "EVIL")),
    "memory: a date": Surface("line", remembered_on),
    "memory: a topic": Surface("line", says("memory", "add", "x", "--topic", "EVIL")),
    "memory: a source": Surface("line", says("memory", "list", "--source", "EVIL")),
    "memory: what was found, --json too": Surface("line", remembered),
    "resume --answer": Surface("line", about("resume", "FILE", "--answer", "EVIL=EVIL")),
    "run --cwd": Surface("line", says("run", "Hi", "--cwd", "EVIL")),
    "run --record in no directory": Surface("line", says("run", "Hi", "--record", "EVIL/x")),
    "run --record of a file that is there": Surface("line", named("run", "Hi", "--record", "FILE")),
    "run --model": Surface("line", says("run", "Hi", "--model", "EVIL")),
    "run --model with a path": Surface("line", says("run", "Hi", "--model", "./EVIL.gguf")),
    "run --model of the hub": Surface("line", says("run", "Hi", "--model", "hf:EVIL/x")),
    "run --adapter": Surface("line", says("run", "Hi", "--backend", "llama", "--adapter", "EVIL")),
    # files
    "a GGUF file's name": Surface("line", named("run", "Hi", "--model", "./FILE", content=b"GGUF")),
    "a GGUF file's architecture": Surface(
        "line", with_file("m.gguf", lambda evil: gguf(general_architecture=evil), "run", "Hi", "--model", "m.gguf")
    ),
    "a GGUF file's metadata": Surface(
        "line", with_file("m.gguf", lambda evil: gguf(**{evil: evil, "general_name": evil}), "format", "m.gguf")
    ),
    "a GGUF file's template": Surface(
        "text", with_file("m.gguf", lambda evil: gguf(tokenizer_chat__template=evil), "format", "m.gguf")
    ),
    "an MLX model's type": Surface("line", mlx(model_type="EVIL")),
    "an MLX model's settings": Surface("line", mlx(model_type="qwen3", hidden_size="EVIL", EVIL="EVIL")),
    "a template that refuses": Surface("text", template(lambda evil: f"{{{{ raise_exception({json.dumps(evil)}) }}}}")),
    "a template with a fault": Surface("text", template(lambda evil: f"{{% {evil}")),
    "a template's own text": Surface(
        "text",
        template(lambda evil: evil[:5000] + "{% for m in messages %}" + evil[:5000] + "{{ m.content }}{% endfor %}"),
    ),
    "format of a file that is not there": Surface("line", says("format", "EVIL")),
    "parse: a reply": Surface("text", with_file("o", hermes, "parse", "o", "--format", "hermes")),
    "parse --json": Surface("line", with_file("o", hermes, "parse", "o", "--format", "hermes", "--json")),
    "parse: the name of a format": Surface("line", says("parse", "x", "--format", "EVIL")),
    "parse: a file that is not there": Surface("line", says("parse", "EVIL")),
    "parse: tools": Surface("line", with_file("t", tool_file, "parse", "t", "--format", "hermes", "--tools", "t")),
    "parse: unknown tools": Surface(
        "text", with_file("o", hermes, "parse", "o", "--format", "hermes", "--tools", "tools.json")
    ),
    "parse: a format in JSON": Surface(
        "line",
        with_file("f.json", lambda evil: json.dumps({evil: evil}), "parse", "x", "--format", "f.json"),
    ),
    "doctor --tools": Surface("line", with_file("t", tool_file, "doctor", "--tools", "t")),
    "doctor --tools --json": Surface("line", with_file("t", tool_file, "doctor", "--tools", "t", "--json")),
    "doctor --tools of no file": Surface("line", says("doctor", "--tools", "EVIL")),
    # this machine
    "doctor": Surface("line", doctor()),
    "doctor --json": Surface("line", doctor("--json")),
    "bench": Surface("line", bench),
    "bench of a model that fails": Surface("line", bench_failing),
    # recordings
    "replay of no file": Surface("line", says("replay", "EVIL")),
    "replay of what is no recording": Surface("line", named("replay", "FILE")),
    "replay of what is nearly one": Surface(
        "line",
        with_file("a.jsonl", lambda evil: json.dumps({"cogstep": evil, "format": evil}) + "\n", "replay", "a.jsonl"),
    ),
    "replay --engine": Surface("line", says("replay", "a.jsonl", "--engine", "EVIL")),
    "replay --engine with a name": Surface("line", says("replay", "a.jsonl", "--engine", "json:EVIL")),
    "replay that differs": Surface("line", divergence()),
    "replay --json": Surface("line", divergence("--json")),
    "replay --to": Surface("line", about("replay", "FILE", "--to", "2")),
    "a header's fields": Surface("line", header()),
    "a header's version": Surface("line", header(protocol="9")),
    "an input's tag and fields": Surface("line", input_tag),
    "rehearse of no file": Surface("line", says("rehearse", "EVIL")),
    "rehearse with other tools": Surface("line", about("rehearse", "FILE")),
    "rehearse that differs": Surface("line", rehearsal()),
    "rehearse --json": Surface("line", rehearsal("--json")),
    "resume of no file": Surface("line", says("resume", "EVIL")),
    "resume with other tools": Surface("line", about("resume", "FILE")),
    "fork of no file": Surface("line", says("fork", "EVIL", "Hi")),
    "fork of no turn": Surface("line", about("fork", "FILE", "Hi", "--turn", "7", "--no-tools")),
    "sessions list": Surface("line", about("sessions", "list")),
    "sessions list --json": Surface("line", about("sessions", "list", "--json")),
    "sessions list: a file's name": Surface("line", named("sessions", "list")),
    "sessions list of no place": Surface("line", says("sessions", "list", "EVIL")),
    "sessions show": Surface("text", about("sessions", "show", "FILE")),
    "sessions show of no file": Surface("line", says("sessions", "show", "EVIL")),
    "sessions search": Surface("line", about("sessions", "search", "question")),
    "sessions search --json": Surface("line", about("sessions", "search", "question", "--json")),
    "sessions search for it": Surface("line", about("sessions", "search", "EVIL")),
    "sessions search --regex": Surface("line", about("sessions", "search", "(EVIL", "--regex")),
    "sessions export json": Surface("line", about("sessions", "export", "FILE")),
    "sessions export openai": Surface("line", about("sessions", "export", "FILE", "--format", "openai", "--reasoning")),
    "sessions export markdown": Surface("text", about("sessions", "export", "FILE", "--format", "markdown")),
    "a file of markdown": Surface("text", export_to_a_file("markdown")),
    "a file of openai": Surface("line", export_to_a_file("openai")),
    "sessions export --output": Surface("line", about("sessions", "export", "FILE", "--output", "EVIL/x")),
    "sessions prune": Surface("line", about("sessions", "prune", "--keep", "0", "--dry-run")),
    "sessions prune --json": Surface("line", about("sessions", "prune", "--keep", "0", "--dry-run", "--json")),
    "sessions prune of no place": Surface("line", says("sessions", "prune", "EVIL", "--keep", "0")),
    # a session
    "a model's name and warning": Surface("line", model_name),
    "an answer": Surface("text", run(lambda evil: f"An answer {evil}")),
    "an answer in pieces": Surface("text", run(lambda evil: Reply(f"An answer {evil[:5000]}", chunk=1))),
    "reasoning": Surface("text", run(lambda evil: Reply("yes", reasoning=evil), options=("-v",))),
    "a call of no tool": Surface("line", run(lambda evil: call(evil))),
    "a call's arguments": Surface("text", run(lambda evil: call("look", what=evil))),
    "a call's arguments, by name": Surface("text", run(lambda evil: call("look", **{evil: 1}))),
    "a call's result": Surface("text", run(lambda evil: call("look", what=f"line\n{evil}"))),
    "a call's whole result": Surface("text", run(lambda evil: call("look", what=evil), options=("-v",))),
    "a call that can't be read": Surface(
        "line", run(lambda evil: Reply("", malformed=(MalformedToolCall(evil, evil),)))
    ),
    "a tool's error": Surface("text", run_with_tool(refuse)),
    "a tool's progress": Surface("line", progress),
    "a failed turn": Surface("line", run(lambda evil: Failure(evil, kind="fatal"))),
    "run --json": Surface("line", run(lambda evil: Reply(evil, reasoning=evil), options=("--json",))),
    "run --json: a call": Surface("line", run(lambda evil: call(evil, **{evil: evil}), options=("--json",))),
    "run --json: a failure": Surface("line", run(lambda evil: Failure(evil, kind="fatal"), options=("--json",))),
    "Glob, Grep and Read": Surface("text", glob()),
    "a question": Surface("rows", approval("n\n\n")),
    "a preview": Surface("rows", previewed("n\n\n", lambda evil: [evil, "+" + evil])),
    "a preview as a diff": Surface(
        "rows", previewed("y\n", lambda evil: Preview([evil, *(f"{sign}{evil}" for sign in "+- @")], sort="diff"))
    ),
    "a preview's note": Surface("rows", previewed("y\n", lambda evil: Preview(sort="command", note=evil))),
    "a preview in full": Surface("text", previewed("s\ny\n", lambda evil: [evil, *[evil[:50]] * 50])),
    "a preview that fails": Surface("text", previewed("y\n", lambda evil: ToolError(evil))),
    "rules to choose from": Surface("rows", previewed("a\nlook(x)\n\nv\n1\n", lambda _: None)),
    "a question in full": Surface("text", approval("s\ny\n")),
    "questions of the model": Surface("text", asks("1\n1\n")),
    "a plan": Surface("text", plans("y\n")),
    "a plan that waits": Surface("line", plans("", on_terminal=False)),
    "questions that wait": Surface("line", asks("", on_terminal=False)),
    "tasks, notes and workers": Surface("text", features),
    "a chat: a mode": Surface("text", chat(lambda evil: f"/mode {evil}".split("\n")[0])),
    "a chat: a model": Surface("text", chat(lambda evil: f"/model {evil}".split("\n")[0])),
    "a chat: the policy": Surface("text", chat(lambda evil: f"/policy\n/policy {evil}".split("\n\n")[0])),
    "a chat: an answer": Surface("text", chat(lambda evil: f"/answer {evil}".split("\n")[0])),
    "replay of another prompt": Surface("line", about("replay", "FILE", "--system", "not EVIL", "--all")),
    "replay --json of another prompt": Surface("line", about("replay", "FILE", "--system", "not EVIL", "--json")),
    "a chat": Surface("text", chat(lambda evil: "Hi")),
    "a chat: a command": Surface("text", chat(lambda evil: f"/{evil}".split("\n")[0])),
    "a chat: the tools": Surface("text", chat(lambda evil: "/tools", name=lambda evil: evil)),
    # what is not ours
    "an error of ours": Surface("line", own_error),
    "a traceback": Surface("text", crash),
    "a thread's traceback": Surface("text", run_with_tool(in_a_thread)),
    "a line of a log": Surface("text", run_with_tool(lambda evil: logging.getLogger("other").warning("%s", evil))),
    "what a tool prints": Surface("text", run_with_tool(lambda evil: print(evil))),
    "what a tool writes to stderr": Surface("text", run_with_tool(lambda evil: sys.stderr.write(evil))),
}
"""Another surface is one more line."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], World]:
    """A new directory with what some surfaces need."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "f"}}]')

    def make(encoding: str, on_terminal: bool) -> World:
        return World(tmp_path, monkeypatch, encoding, on_terminal)

    return make


WAYS = [("ascii", True), ("cp1252", False)]
"""The encoding of both streams, and whether they are terminals, beside UTF-8 on either."""

FORGED = b"cogstep: everything is fine"
"""What a line break in a text would make a line of its own of."""

GROUPS = 4
"""How many runs the short texts are spread over: some keep a command from coming to where others do harm."""

UNBOUNDED = ("--json", "--to", "export", "a file of")
"""Whatever the text, JSON has all of it."""


def trials() -> Iterator[tuple[str, str, str, bool]]:
    """Long texts alone, short ones a few at a time, and all short ones together in other encodings."""
    short = [(label, evil) for label, evil in HOSTILE.items() if len(evil) < 100]
    for label, evil in HOSTILE.items():
        if (label, evil) not in short:
            yield label, evil, "utf-8", False
    for place in range(GROUPS):
        labels, texts = zip(*short[place::GROUPS], strict=True)
        yield ", ".join(labels), " ".join(texts), "utf-8", bool(place % 2)
    for encoding, on_terminal in WAYS:
        yield "all", " ".join(evil for _, evil in short), encoding, on_terminal


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("name", SURFACES)
def test_nothing_on_a_surface_is_obeyed(name: str, world: Callable[[str, bool], World]) -> None:
    """Whatever the text: of control and invisible characters only our own are written, in any encoding; where it is a
    name or a message it has no line of its own and no more than a bounded length, be it broken into rows.
    """
    surface, bounded = SURFACES[name], not any(word in name for word in UNBOUNDED)
    harmless = {on_terminal: world("utf-8", on_terminal) for on_terminal in (False, True)}
    for one in harmless.values():
        surface.run(one, "harmless")
    for label, evil, encoding, on_terminal in trials():
        tried, usual = world(encoding, on_terminal), harmless[on_terminal]
        surface.run(tried, evil)
        for written in tried.written:
            found = offences(written, encoding, on_terminal=tried.on_terminal, lines=surface.kind == "text")
            assert not found, (name, label, encoding, written[:800])
        if surface.kind != "text" and bounded:
            written, before = b"".join(tried.written), b"".join(usual.written)
            assert FORGED not in written.splitlines(), (name, label, written[:800])
            # Something may be wrong with the text that is right with the harmless one, and be said.
            more = {"line": 5, "rows": 400}[surface.kind]
            assert written.count(b"\n") <= before.count(b"\n") + more, (name, label, written[:800])
            assert len(written) < len(before) + 20_000, (name, label, len(written))
