"""``--tools MODULE:NAME``: sessions with the user's own tools, and with those of an embedding program."""

from __future__ import annotations

import gc
import json
import re
from pathlib import Path

import pytest

from interpreters import LATER, Agent, fakes, replay, tool
from interpreters.cli.options.arguments import FEATURES, MODES, PROTOCOLS
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import BACKENDS, Cogstep, OnTerminal, scripted
from tests.interpreters.cli.test_signals import QUESTION

MY_TOOLS = '''
from interpreters import tool
from cognition import ToolSpec

prices = {"apple": 2, "plum": 3}

@tool(read_only=True)
def price(item: str) -> int:
    """Say what something costs."""
    return prices[item]

@tool(approval=True)
def order(item: str) -> str:
    """Order something."""
    print("ordering", item)
    with open("ordered", "a") as file:
        file.write(item)
    return f"{item} is on its way"

def plain(item: str) -> str:
    """Look at something."""
    return "seen"

look_up = ToolSpec("look_up", "Look something up.", {"type": "object", "properties": {"key": {"type": "string"}}})

TOOLS = [price, order]
PAIR = (price, plain)
EXTERNAL = [look_up]
EMPTY = []
SET = {price}
TEXT = "price"
NUMBER = 3
BROKEN = [price, 3]
CLASSES = [dict]

def make():
    return TOOLS

def make_none():
    return []

def make_here(root) -> list:
    assert root.is_dir()
    return [price]

def make_typed() -> "list[object]":
    "Make nothing."
    raise AssertionError("this is a tool and not to be called")

def fail():
    raise KeyError("no such table")

def nothing():
    return None

@tool
def launch():
    """Launch."""
    raise AssertionError("this is a tool and not to be called")

def names() -> list[str]:
    """Names."""
    raise AssertionError("this is a tool and not to be called")

async def later():
    return TOOLS

def generate():
    yield price
    yield order

class Shop:
    tools = [price]
'''

CALLS = 'replies = [call("price", item="plum"), call("order", item="plum"), "A plum is 3, and on its way."]'
OFFERED = "lambda request: ' '.join(tool.name for tool in request.tools)"


@pytest.fixture
def my_tools(tmp_path: Path) -> Path:
    path = tmp_path / "my_tools.py"
    path.write_text(MY_TOOLS)
    return path


# ---------------------------------------------------------------------------------------------------------- end to end


def program_records(path: Path) -> None:
    """A session as an embedding program records it, that was interrupted in its second turn."""

    @tool(read_only=True)
    def price(item: str) -> int:
        """Say what something costs."""
        return {"apple": 2, "plum": 3}[item]

    @tool(approval=True)
    def order(item: str) -> str:
        """Order something."""
        return f"{item} is on its way"

    model = fakes.ScriptedModel([call("price", item="plum"), "3.", call("order", item="plum")])
    with Agent(model, [price, order], "You sell fruit.", journal=path, approve=lambda _: LATER) as agent:
        agent.run("What is a plum?")
        assert agent.run("Then one, please.").pending


def test_a_session_of_a_program_is_taken_up_on_a_terminal(
    on_terminal: OnTerminal,
    my_tools: Path,
    tmp_path: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replay, rehearse, fork and resume, each in a process of its own; what waits for an approval is asked."""
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    program_records(tmp_path / "s.jsonl")
    own = ("--tools", "my_tools:TOOLS")

    screen, code = on_terminal("replay", "s.jsonl", *own)
    assert (code, "every decision is the same" in screen) == (0, True), screen

    screen, code = on_terminal("rehearse", "s.jsonl", *own)
    assert (code, "every result is the same (1 call)" in screen) == (0, True), screen

    script = scripted('replies = [call("price", item="apple"), "An apple is 2."]')
    screen, code = on_terminal(
        "fork", "s.jsonl", "And an apple?", "--turn", "1", "--record", "f.jsonl", *own, command=script
    )
    assert (code, '→ price(item="apple")' in screen, "An apple is 2." in screen) == (0, True, True), screen

    script = scripted('replies = ["It is on its way."]')
    screen, code = on_terminal("resume", "s.jsonl", *own, command=script, typed=[(QUESTION, "y\n")])
    assert (code, '? order(item="plum")' in screen, "It is on its way." in screen) == (0, True, True), screen
    assert (tmp_path / "ordered").read_text() == "plum"
    assert replay(tmp_path / "s.jsonl").same


def test_a_session_with_own_tools_runs_from_end_to_end_on_a_terminal(
    on_terminal: OnTerminal, my_tools: Path, tmp_path: Path
) -> None:
    """Run, replay, resume, fork and rehearse, with nothing but MODULE:NAME."""
    own = ("--tools", "my_tools:TOOLS")
    screen, code = on_terminal(
        "run", "A plum?", *own, "--record", "s.jsonl", command=scripted(CALLS), typed=[(QUESTION, "y\n")]
    )
    assert (code, "plum is on its way" in screen, "A plum is 3, and on its way." in screen) == (0, True, True), screen
    assert (tmp_path / "ordered").read_text() == "plum"

    assert on_terminal("replay", "s.jsonl")[1] == 0
    assert on_terminal("replay", "s.jsonl", *own)[1] == 0
    screen, code = on_terminal("resume", "s.jsonl", "Thanks!", *own, command=scripted('replies = ["Welcome."]'))
    assert (code, "Welcome." in screen) == (0, True), screen
    screen, code = on_terminal(
        "fork", "s.jsonl", "Else?", "--turn", "1", *own, command=scripted(f"replies = [{OFFERED}]")
    )
    assert (code, "price order" in screen) == (0, True), screen
    screen, code = on_terminal("rehearse", "s.jsonl", *own)
    assert (code, "every result is the same (2 calls)" in screen) == (0, True), screen
    assert (tmp_path / "ordered").read_text() == "plumplum"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_shipped_model_calls_a_tool_of_the_users(backend: str, on_terminal: OnTerminal, tmp_path: Path) -> None:
    """On a terminal, and what is recorded replays and rehearses."""
    (tmp_path / "mine.py").write_text(
        "def multiply(a: int, b: int) -> int:\n    '''Multiply two whole numbers.'''\n    return a * b\n"
    )
    own = ("--tools", "mine:multiply")
    screen, code = on_terminal("run", "What is 17 * 23?", "--backend", backend, *own, "--record", "s.jsonl")
    assert (code, "→ multiply(a=17, b=23)" in screen, "391" in screen) == (0, True, True), screen
    assert on_terminal("replay", "s.jsonl")[1] == 0
    assert on_terminal("rehearse", "s.jsonl", *own)[1] == 0


# --------------------------------------------------------------------------------------------------- what NAME may be

OFFERS = {
    "my_tools:TOOLS": "price order",
    "my_tools:PAIR": "price plain",
    "my_tools:price": "price",
    "my_tools:plain": "plain",
    "my_tools:names": "names",
    "my_tools:look_up": "look_up",
    "my_tools:launch": "launch",
    "my_tools:make": "price order",
    "my_tools:make_here": "price",
    "my_tools:make_typed": "make_typed",
    "my_tools:generate": "price order",
    "my_tools:Shop.tools": "price",
    "interpreters.toolbox:standard_tools": "calculate current_time Read Glob Grep",
    "interpreters.toolbox:shell_tools": "Bash BashOutput KillShell",
    "KillShell,Bash,calculate": "calculate Bash KillShell",
    "my_tools:TOOLS,my_tools:price": "price order",
    "Read,my_tools:TOOLS,calculate": "calculate Read price order",
}


@pytest.mark.parametrize("name", OFFERS)
def test_what_a_name_stands_for_is_offered(name: str, here: Cogstep, my_tools: Path) -> None:
    """A list, one tool, or a function that makes them, called only if it can be no tool itself."""

    def offered(request: object) -> str:
        return " ".join(one.name for one in request.tools) or "none"  # type: ignore[attr-defined]  # a ModelRequest

    done = here("run", "Hi", "--tools", name, replies=[offered])

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{OFFERS[name] or 'none'}\n", "")


def test_a_command_runs_where_it_is_approved_and_its_session_is_taken_up(here: Cogstep, tmp_path: Path) -> None:
    """What is too long is in a file while the session lasts, and the model is told which. Replays run nothing."""

    def where(request: object) -> str:
        (message,) = request.messages[-1:]  # type: ignore[attr-defined]  # a ModelRequest
        (path,) = re.findall(r"all of it is in the file (\S+): read", message.content)
        return f"{Path(path).stat().st_size} {path}"

    bash = call("Bash", command="seq 20000 > all; cat all; touch ran", timeout=60)

    here("run", "Hi", "--tools", "Bash", replies=[bash, "done"])
    assert not (tmp_path / "ran").exists()

    options = ("--approve", "all", "--tools", "Bash", "--record", "s.jsonl")
    done = here("run", "Hi", *options, replies=[bash, where])
    size, _, path = done.stdout.strip().partition(" ")
    assert (done.returncode, size) == (0, "108894"), done.stderr
    gc.collect()
    assert not Path(path).parent.exists()
    (tmp_path / "ran").unlink()
    assert here("replay", "s.jsonl").returncode == 0
    assert here("resume", "s.jsonl", "More?", replies=["no"]).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_fetching_by_the_shell_is_denied_unless_a_policy_of_the_program_says_otherwise(
    here: Cogstep, tmp_path: Path
) -> None:
    """Approving everything approves only what is asked about."""

    def said(request: object) -> str:
        (message,) = request.messages[-1:]  # type: ignore[attr-defined]  # a ModelRequest
        return str(message.content)

    (tmp_path / "own.py").write_text("from cognition import Policy\nAGENT = {'policy': Policy()}\n")
    bash = call("Bash", command="touch ran; env 'cu'rl --version; true")
    options = ("--tools", "Bash", "--approve", "all")

    denied = here("run", "Hi", *options, replies=[bash, said])
    assert (
        "fetching from the network by the shell is not permitted" in denied.stdout,
        (tmp_path / "ran").exists(),
    ) == (
        True,
        False,
    )
    here("run", "Hi", *options, "--agent", "own:AGENT", replies=[bash, said])
    assert (tmp_path / "ran").exists()


def test_several_options_add_up(here: Cogstep, my_tools: Path) -> None:
    def offered(request: object) -> str:
        return " ".join(one.name for one in request.tools)  # type: ignore[attr-defined]  # a ModelRequest

    done = here("run", "Hi", "--tools", "my_tools:PAIR", "--tools", "calculate", replies=[offered])

    assert done.stdout == "calculate price plain\n"


MODULES = {
    "wrong syntax": ("def (", "SyntaxError"),
    "raises": ("1 / 0", "ZeroDivisionError: division by zero (bad.py, line 1)"),
    "raises further down": ("def f():\n    raise OSError\nf()", "OSError (bad.py, line 2)"),
    "ends the program": ("import sys\nsys.exit(3)", "ended the program (bad.py, line 2)"),
    "parses the command line": ("import argparse\nargparse.ArgumentParser().parse_args(['--x'])", "ended the program"),
    "imports what is missing": ("import not_there_at_all", "No module named 'not_there_at_all'"),
    "imports half of itself": ("from bad import TOOLS", "ImportError"),
    "raises what is no exception": ("raise GeneratorExit('gone')", "GeneratorExit: gone"),
    "raises what can't be told": (
        "class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
        "importing bad failed: E",
    ),
    "does not end in itself": ("def f(): f()\nf()", "RecursionError"),
    "has a tool that is none": ("from interpreters import tool\n@tool\ndef f(x): ...", "ConfigError"),
    "goes elsewhere": ("import os\nos.chdir('/')\nTOOLS = []", "changed the working directory"),
    "forges a line": ("raise ValueError('\\ncogstep: everything is fine\\x1b[2J')", "\\n"),
    "is no text": (b"\xff\xfe\x00", "bad"),
}


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("command", ["run Hi", "chat", "resume s.jsonl", "fork s.jsonl Hi", "rehearse s.jsonl"])
def test_a_module_that_can_not_be_imported_is_one_sentence(
    kind: str, command: str, here: Cogstep, tmp_path: Path
) -> None:
    """Before a model is loaded, whatever it does."""
    here("run", "Hi", "--no-tools", "--record", "s.jsonl", replies=["Hello."])
    content, expected = MODULES[kind]
    (tmp_path / "bad.py").write_bytes(content if isinstance(content, bytes) else content.encode())

    done = here(*command.split(), "--tools", "bad:TOOLS", replies=[])

    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("cogstep: --tools bad:TOOLS: ")
    assert expected in line
    if kind != "parses the command line":  # which prints its usage
        assert done.stderr.count("\n") == 1


NAMES = {
    "my_tools": "there is no tool 'my_tools'; there are calculate",
    "my_tools:": "write it as MODULE:NAME",
    ":TOOLS": "write it as MODULE:NAME",
    "my_tools:TOOLS:x": "write it as MODULE:NAME",
    "my tools:TOOLS": "write it as MODULE:NAME",
    "my_tools.py:TOOLS": "names a file",
    "./my_tools:TOOLS": "names a file",
    "no_such_module:TOOLS": "there is no module 'no_such_module'",
    "my_tools.sub:TOOLS": "there is no module 'my_tools.sub'",
    "my_tools:TOOL": "there is no 'TOOL' in",
    "my_tools:Shop.tool": "did you mean 'tools'?",
    "my_tools:SET": "is of the type set; it has to be a list",
    "my_tools:TEXT": "is of the type str; it has to be a list",
    "my_tools:NUMBER": "is of the type int; it has to be a list",
    "my_tools:Shop": "is the class Shop; it has to be a list",
    "my_tools:prices": "is of the type dict; it has to be a list",
    "my_tools:BROKEN": "holds something that is of the type int",
    "my_tools:CLASSES": "holds something that is the class dict",
    "my_tools:fail": "KeyError: 'no such table' (my_tools.py, line",
    "my_tools:nothing": "is None; it has to be a list",
    "my_tools:later": "is of the type coroutine; it has to be a list",
    "my_tools:EMPTY": "is empty, and offers no tool; put one in it, or give --no-tools",
    "my_tools:TOOLS,my_tools:make_none": "--tools my_tools:make_none is empty",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_tools_is_one_sentence(name: str, here: Cogstep, my_tools: Path) -> None:
    done = here("run", "Hi", "--tools", name, replies=[])

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert NAMES[name] in done.stderr


def test_two_tools_of_one_name_are_refused(here: Cogstep, my_tools: Path, tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text("def price(item: str) -> int:\n    return 1\n")

    for command in ("run Hi", "fork s.jsonl Hi", "resume s.jsonl", "rehearse s.jsonl"):
        here("run", "Hi", "--no-tools", "--record", "s.jsonl", replies=["Hello."])
        done = here(*command.split(), "--tools", "my_tools:TOOLS,more:price", replies=[])
        assert (done.returncode, "two tools are named 'price'" in done.stderr) == (2, True)


# ------------------------------------------------------------------------------------------------- what is held by it


def test_a_recording_never_names_a_module(here: Cogstep, my_tools: Path, tmp_path: Path) -> None:
    """Without the option the module that it was made with is not imported, and the error says what to give."""
    replies = [call("price", item="plum"), "3."]
    assert here("run", "?", "--tools", "my_tools:TOOLS", "--record", "s.jsonl", replies=replies).returncode == 0
    my_tools.write_text("open('imported', 'w')\n" + MY_TOOLS)

    for command in ("resume s.jsonl Hi", "fork s.jsonl Hi", "rehearse s.jsonl"):
        done = here(*command.split(), replies=[])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "tools of another program (price, order)" in done.stderr
        assert "--tools my_tools:TOOLS" in done.stderr
    assert here("replay", "s.jsonl").returncode == 0
    assert not (tmp_path / "imported").exists()
    assert "my_tools" not in (tmp_path / "s.jsonl").read_text()


def test_no_module_is_imported_for_a_recording_of_others(here: Cogstep, my_tools: Path, tmp_path: Path) -> None:
    """It is refused before."""
    from tests.interpreters.forged import as_somebody_else

    with as_somebody_else():
        here("run", "Hi", "--no-tools", "--record", "s.jsonl", replies=["Hello."])
    my_tools.write_text("open('imported', 'w')\nTOOLS = []\n")

    for command in ("resume s.jsonl Hi", "fork s.jsonl Hi", "rehearse s.jsonl"):
        assert here(*command.split(), "--tools", "my_tools:TOOLS", replies=[]).returncode == 2
    assert not (tmp_path / "imported").exists()


def test_a_file_beside_the_module_passes_for_no_library(cogstep: Cogstep, my_tools: Path, tmp_path: Path) -> None:
    """Nor is it found before Python's own or what is installed; what the module itself imports is found."""
    for name in ("json", "jinja2", "attrs", "readline", "tempfile", "llama_cpp", "mlx_lm", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('hijacked', 'w')\n")
    (tmp_path / "helper.py").write_text("ITEM = 'plum'\n")
    my_tools.write_text(MY_TOOLS + "from helper import ITEM\n")
    python, *script = scripted('replies = [call("price", item="plum"), "3."]')

    # As the installed command: Python itself puts nothing on the path.
    done = cogstep("run", "Hi", "--tools", "my_tools:TOOLS", command=(python, "-P", *script))

    assert (done.returncode, done.stdout) == (0, "3.\n"), done.stderr
    assert not (tmp_path / "hijacked").exists()


def test_what_a_module_and_a_tool_print_is_no_answer(here: Cogstep, my_tools: Path) -> None:
    """It goes to stderr: stdout is what the model says, also as JSON."""
    my_tools.write_text("print('imported')\n" + MY_TOOLS)
    replies = [call("order", item="plum"), "Done."]

    done = here("run", "?", "--tools", "my_tools:TOOLS", "--yes", replies=replies)
    assert done.stdout == "Done.\n"
    assert "imported\n" in done.stderr
    assert "ordering plum\n" in done.stderr
    done = here("run", "?", "--tools", "my_tools:TOOLS", "--yes", "--json", replies=replies)
    assert [json.loads(line)["value"]["type"] for line in done.stdout.splitlines()][-1] == "turn_finished"
    done = here("run", "?", "--tools", "my_tools:TOOLS", "--yes", "--record", "s.jsonl", replies=replies)
    done = here("rehearse", "s.jsonl", "--tools", "my_tools:TOOLS", "--json")
    assert json.loads(done.stdout)["calls"] == 1


def test_a_recording_of_both_kinds_of_tools_needs_only_the_module(here: Cogstep, my_tools: Path) -> None:
    """Tools of cogstep are known by their names, and what the module has besides is not offered."""

    def offered(request: object) -> str:
        return " ".join(one.name for one in request.tools)  # type: ignore[attr-defined]  # a ModelRequest

    own = ("--tools", "my_tools:price,calculate")
    here("run", "Hi", *own, "--record", "s.jsonl", replies=["Hello."])

    done = here("resume", "s.jsonl", "And?", "--tools", "my_tools:TOOLS", replies=[offered])
    assert (done.returncode, done.stdout) == (0, "calculate price\n")
    done = here("fork", "s.jsonl", "And?", replies=[])
    assert "tools of another program (price)" in done.stderr
    done = here("fork", "s.jsonl", "And?", "--no-tools", replies=["On."])
    assert done.returncode == 0


def test_other_tools_than_the_recorded_ones_are_refused_at_a_resume(here: Cogstep, my_tools: Path) -> None:
    """As the library does it: a changed schema is another tool."""
    here("run", "Hi", "--tools", "my_tools:TOOLS", "--record", "s.jsonl", replies=["Hello."])
    my_tools.write_text(MY_TOOLS.replace("Say what something costs.", "Say the price."))

    done = here("resume", "s.jsonl", "And?", "--tools", "my_tools:TOOLS", replies=[])

    assert (done.returncode, "other tools (price differs in description)" in done.stderr) == (2, True)


def test_external_tools_wait_for_their_result(here: Cogstep, my_tools: Path, tmp_path: Path) -> None:
    """It is handed in by the id, in another process."""
    asks = [call("look_up", key="a")]
    own = ("--tools", "my_tools:EXTERNAL")
    done = here("run", "?", *own, "--record", "s.jsonl", replies=asks)
    assert (done.returncode, done.stdout) == (1, "")
    assert '! 1.1.1 waits for the result of look_up(key="a")\n' in done.stderr
    assert "go on with: cogstep resume s.jsonl" in done.stderr

    assert here("resume", "s.jsonl", *own, replies=[]).returncode == 1
    wrong = here("resume", "s.jsonl", *own, "--answer", "9.9.9=x", replies=[])
    assert (wrong.returncode, "nothing waits for an answer under '9.9.9'" in wrong.stderr) == (2, True)
    done = here("resume", "s.jsonl", "And?", *own, "--answer", "1.1.1=42", replies=["It is 42.", "On."])
    assert (done.returncode, done.stdout) == (0, "It is 42.\nOn.\n")
    assert replay(tmp_path / "s.jsonl").same
    assert here("rehearse", "s.jsonl", *own).stdout == "s.jsonl: every result is the same (0 calls)\n"

    done = here("run", "?", *own, replies=asks)
    assert "the session is not recorded" in done.stderr


def test_the_words_of_the_command_line_are_those_of_the_core() -> None:
    """They are written out, so that --help need not load it."""
    from typing import get_args

    from cognition.parsing.text_protocol import TextProtocol
    from cognition.values.features import Feature, Mode

    assert [get_args(kind) for kind in (Feature, Mode, TextProtocol)] == [FEATURES, MODES, PROTOCOLS]
