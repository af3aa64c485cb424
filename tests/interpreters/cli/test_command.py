"""The command as shells see it: exit codes, one line for each thing that is wrong, nothing lost.

Where the shipped model is asked, no text of its answers is pinned but that it called a tool and that 391 came of it:
what exactly it says is pinned, for each file and backend, in the end-to-end tests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from cognition import Failure, ModelRequest
from interpreters.cli.main import parser
from interpreters.recording.journal.format import line_of
from interpreters.testing.fakes import Reply, Script, call
from runtime.models.installation import install_line
from runtime.models.specs import SMALL_MODEL
from tests.interpreters.cli.processes import BACKENDS, Cogstep, scripted

QUESTION = "What is 17 * 23?"

LAZY = {
    "asyncio", "attr", "cattrs", "cognition", "runtime", "llama_cpp", "mlx", "mlx_lm", "numpy", "jinja2",
    "huggingface_hub", "tokenizers", "transformers",
}  # fmt: skip
"""What nothing but a turn needs."""

FACE = {"cognition", "cognition.base", "cognition.base.face"}
"""Finds the public names of a package, and imports nothing of the core."""


def single_line(run: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command which could not do its work prints, and nothing else."""
    assert run.returncode == 2, run.stderr
    assert not run.stdout
    (line,) = run.stderr.splitlines()
    assert line.startswith("cogstep"), line
    return line


# ----------------------------------------------------------------------------------------------------- what is printed


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["format", "--help"], ["--version"]])
def test_help_loads_nothing_that_it_does_not_need(arguments: list[str]) -> None:
    """--help answers at once because no backend, no asyncio, and not even the core is imported for it.

    The page of all commands has install lines, whose module needs nothing of the rest.
    """
    code = (
        "import sys\nfrom interpreters.cli.main import main\n"
        f"code = main({arguments!r})\nprint(code, *sys.modules, sep='\\n', file=sys.stderr)"
    )
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    exit_code, *modules = run.stderr.splitlines()

    assert exit_code == "0"
    assert run.stdout
    lines = {"runtime", "runtime.models", "runtime.models.installation", "runtime.shadowed"}
    allowed = FACE | (lines if arguments == ["--help"] else set())
    assert {name.split(".")[0] for name in set(modules) - allowed} & LAZY == set()


def pages(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The help page of a command and of those below it, each with what is typed for it."""
    assert command.description is not None
    yield command.prog, command.description
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from pages(below)


@pytest.mark.parametrize(("typed", "page"), list(pages(parser())))
def test_each_help_page_teaches_with_two_examples(typed: str, page: str) -> None:
    """The examples are commands that can be typed as they stand, and are of the command whose page it is."""
    lines = page.split("examples:\n")[1].splitlines()
    commands = [line.split(" | ")[-1].split(" > ")[0].strip() for line in lines if line.strip()]

    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "cogstep"
        assert callable(parser().parse_args(arguments).act)
        assert " ".join([program, *arguments]).startswith(typed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_main_job(backend: str, cogstep: Cogstep, here: Cogstep, tmp_path: Path) -> None:
    """A real model calls a real tool and answers; the recording replays without either."""
    ran = cogstep("run", QUESTION, "--backend", backend, "--record", "s.jsonl")
    replayed = cogstep("replay", "s.jsonl")  # by the same user, or it would say that it is somebody else's
    as_json = here("replay", "s.jsonl", "--json")

    assert ran.returncode == 0, ran.stderr
    assert "391" in ran.stdout
    assert "→ calculate(" in ran.stderr
    assert "← 391" in ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert "every decision is the same" in replayed.stdout
    assert json.loads(as_json.stdout)["same"] is True
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert len(written) == 2, written  # the recording, and the key of its seals; no cache
    assert written[1] == "s.jsonl"


def test_json_prints_events_and_nothing_else(here: Cogstep) -> None:
    """Each line of stdout is an event, from the first of the turn to its last."""
    run = here("run", "?", "--json", replies=[call("calculate", expression="17 * 23"), "391"])
    kinds = [json.loads(line)["value"]["type"] for line in run.stdout.splitlines()]

    assert (run.returncode, run.stderr) == (0, "")
    assert (kinds[0], kinds[-1]) == ("user_spoke", "turn_finished")
    assert kinds.count("tool") == 1


def test_a_divergence_shows_both_sides(here: Cogstep, tmp_path: Path) -> None:
    """A recording in which one decision was changed exits with 1 and names the record."""
    here("run", "?", "--record", "s.jsonl", replies=["391"])
    path = tmp_path / "s.jsonl"
    outcome = '"outcome":{"type":"completed","text":"%s"}'
    path.write_text(path.read_text().replace(outcome % "391", outcome % "392"))
    run = here("replay", "s.jsonl")
    data = json.loads(here("replay", "s.jsonl", "--json").stdout)

    assert run.returncode == 1
    assert "record 2 (line 3) differs at decisions[0].outcome.text" in run.stdout
    assert 'recorded: "392"' in run.stdout
    assert 'decided:  "391"' in run.stdout
    assert "line 3: the record was changed after it was written" in run.stderr
    assert (data["same"], data["divergence"]["record"]) == (False, 2)


def test_a_prompt_can_come_from_stdin(here: Cogstep) -> None:
    """``-`` reads all of it."""
    run = here("run", "-", replies=[lambda request: f"asked {request.messages[-1].text!r}"], input="two\nlines\n")

    assert run.stdout == "asked 'two\\nlines'\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "calculate current_time Read Glob Grep"),
        (["--tools", "Read,calculate"], "calculate Read"),
        (["--no-tools"], ""),
    ],
)
def test_tools_come_in_their_own_order(arguments: list[str], expected: str, here: Cogstep) -> None:
    """The model is shown the tools in the order it was trained on, and no system prompt."""
    shown: list[ModelRequest] = []
    here("run", "?", *arguments, replies=[lambda request: shown.append(request) or "fine"])
    (request,) = shown

    assert request.system == ""
    assert " ".join(tool.name for tool in request.tools) == expected


@pytest.mark.parametrize(
    ("replies", "code", "expected"),
    [
        (["fine"], 0, ""),
        ([Reply("cut", finish_reason="length")], 1, "--max-tokens raises it"),
        (itertools.repeat(call("calculate", expression="1")), 1, "the turn ended at its limit"),
        ([Failure("no key", kind="auth")], 1, "the turn failed (auth): no key"),
    ],
)
def test_the_exit_code_says_how_the_turn_ended(
    replies: Iterable[Script], code: int, expected: str, here: Cogstep
) -> None:
    """0 for an answer, 1 for a failure or a limit, with the reason on stderr."""
    run = here("run", "?", replies=replies)

    assert run.returncode == code
    assert expected in run.stderr


def test_a_chat_from_a_pipe(here: Cogstep) -> None:
    """Messages are lines of stdin; commands are not sent to the model; the conversation goes on until /reset."""
    replies = (lambda request, n=n: f"{n}: {len(request.messages)} messages" for n in itertools.count(1))
    typed = 'one\n/tools\n"""\ntwo\nlines\n"""\n/reset\n/nope\n/mod plan\n\n/help\nthree\n/quit\nnever\n'
    run = here("chat", replies=replies, input=typed)

    assert (run.returncode, run.stdout) == (0, "1: 1 messages\n2: 3 messages\n3: 1 messages\n")
    assert "current_time" in run.stderr
    assert "there is no command /nope; /help lists them; a space before it makes it a message" in run.stderr
    assert "there is no command /mod; you may mean /mode; " in run.stderr
    assert "/reset         forget the conversation" in run.stderr


def test_a_chat_is_summarised_when_the_user_asks_for_it(here: Cogstep) -> None:
    """What came of it is told; the model is shown the summary and what is said from then on."""
    replies = (lambda request, n=n: f"{n}: {len(request.messages)} messages" for n in itertools.count(1))
    typed = f"/compact\nTell me {'more ' * 200}\n/compact\nand?\n"
    run = here("chat", replies=replies, input=typed)

    assert (run.returncode, run.stdout) == (0, "1: 1 messages\n2: 2 messages\n")
    assert "! no summary was made: there is nothing to summarise" in run.stderr
    assert "• 2 messages are summarised: a prompt of about" in run.stderr


# --------------------------------------------------------------------------------------------------- what can be wrong


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "required: COMMAND"),
        ("fly", "invalid choice: 'fly'"),
        ("run", "required: PROMPT"),
        ("run x --sed 1", "cogstep run: unrecognized arguments: --sed 1 (see cogstep run --help)"),
        ("sessions list --sed", "--sed (see cogstep sessions list --help)"),
        ("run x --temperature hot", "expected a number from 0 to 2, not 'hot'"),
        ("run x --temperature nan", "expected a number from 0 to 2, not 'nan'"),
        ("run x --max-steps 0", "expected a whole number from 1, not '0'"),
        ("run x --seed -1", "expected a whole number from 0 to 4294967295"),
        ("run x --backend torch", "invalid choice: 'torch'"),
        ("run x --tools Read,", "expected names with commas between them"),
        ("run x --tools Writes", "there is no tool 'Writes'; there are calculate, current_time, Read, Glob, Grep"),
        ("run x --tools Read --no-tools", "not allowed with argument"),
        ("run x --cwd nowhere", "--cwd nowhere is no directory"),
        ("run ''", "the prompt is empty"),
        ("run -", "the prompt is empty"),
        ("run x --model nowhere.gguf", "there is no file or directory nowhere.gguf"),
        ("run x --model text.gguf", "text.gguf is no GGUF file"),
        ("run x --model empty.gguf", "empty.gguf is empty"),
        ("run x --model cut.gguf", "cut.gguf is cut short"),
        ("run x --model .", "config.json"),
        ("run x --model ftp://host/model", "names no model in a form that is known"),
        ("run x --record there.jsonl", "there.jsonl exists, and a recording is never overwritten"),
        ("run x --record .", "is a directory"),
        ("run x --record nowhere/s.jsonl", "there is no directory nowhere"),
        ("chat --record there.jsonl", "there.jsonl exists"),
        ("replay nowhere.jsonl", "there is no such file"),
        ("replay .", "is a directory"),
        ("replay text.gguf", "this is no cogstep journal"),
        ("replay empty.gguf", "the file is empty"),
        ("replay future.jsonl", "the journal has version 99"),
        ("replay damaged.jsonl", "line 3: this is no record; the journal is damaged here"),
        ("format nowhere.gguf", "there is no file or directory nowhere.gguf"),
        ("format text.gguf", "text.gguf is no GGUF file"),
        ("format empty.gguf", "empty.gguf is no GGUF file"),
        ("format cut.gguf", "cut.gguf is no GGUF file, or is cut short"),
        ("format .", "holds neither a model nor a chat template"),
        ("format there.jsonl", "there.jsonl is no chat template: it reads no messages"),
        ("format broken.jinja", "the chat template has a syntax error in line 1"),
        ("parse", "required: FILE"),
        ("parse nowhere.txt --format hermes", "nowhere.txt: No such file or directory"),
        ("parse . --format hermes", "is a directory"),
        ("parse bytes.txt --format hermes", "bytes.txt is no text in UTF-8"),
        ("parse there.jsonl --format herms", "there is no format 'herms'; did you mean hermes?"),
        ("parse there.jsonl --format zzz", "there is no format 'zzz'; there are plain, hermes"),
        ("parse there.jsonl --format nowhere.json", "nowhere.json: No such file or directory"),
        ("parse there.jsonl --format shape.json", "shape.json holds no format"),
        ("parse there.jsonl --format marker.json", "a marker must not be empty"),
        ("parse there.jsonl --format list.json", "list.json holds no format"),
        ("parse there.jsonl --format broken.json", "broken.json is not valid JSON"),
        ("parse there.jsonl --format broken.jinja", "the chat template has a syntax error in line 1"),
        ("parse there.jsonl --format hermes --tools shape.json", "shape.json holds no list of tools"),
        (
            "parse there.jsonl --format hermes --tools list.json",
            "list.json: tool 0: it has to be an object",
        ),
        ("parse there.jsonl --format hermes --tools name.json", "name.json: tool 0: tool name 'a b'"),
        ("parse there.jsonl --finish-reason tired", "invalid choice: 'tired'"),
        ("doctor --seconds soon", "expected a whole number from 1"),
    ],
)
def test_what_is_wrong_is_one_line(line: str, expected: str, here: Cogstep, wrong_files: Path) -> None:
    """Exit code 2, one line on stderr that names the trouble and what helps, no traceback."""
    assert expected in single_line(here(*shlex.split(line)))


@pytest.fixture
def wrong_files(tmp_path: Path) -> Path:
    """A directory of files that are not what they should be."""
    (tmp_path / "text.gguf").write_text("a text that is long enough to be looked at\n")
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    (tmp_path / "there.jsonl").write_text("something\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.jinja").write_text("{% for m in messages %}")
    (tmp_path / "broken.json").write_text('{"name":')
    (tmp_path / "shape.json").write_text('{"name": "x", "calls": {"shape": "poem"}}')
    (tmp_path / "marker.json").write_text('{"name": "x", "stops": [""]}')
    (tmp_path / "list.json").write_text("[5]")
    (tmp_path / "name.json").write_text('[{"name": "a b"}]')
    header = {"format": "cogstep-journal", "version": 1, "session": "s", "engine": "echo", "config": None, "created": 0}
    (tmp_path / "future.jsonl").write_text(json.dumps({**header, "version": 99}) + "\n")
    record = {"seq": 1, "input": {"type": "session_reset"}, "decisions": []}
    first, total, _ = line_of(header)
    (tmp_path / "damaged.jsonl").write_bytes(first + line_of(record, total)[0] + b"rubbish\n")
    return tmp_path


def test_what_exists_is_never_overwritten(here: Cogstep, wrong_files: Path) -> None:
    """A refused recording leaves the file as it was."""
    here("run", "x", "--record", "there.jsonl")

    assert (wrong_files / "there.jsonl").read_text() == "something\n"


@pytest.mark.parametrize(
    ("missing", "arguments", "expected"),
    [
        (["llama_cpp", "mlx_lm"], [], f"no backend is installed: {install_line('llama')}"),
        (["llama_cpp"], ["--backend", "llama"], install_line("llama")),
        (["mlx_lm"], ["--backend", "mlx"], install_line("mlx")),
        (["huggingface_hub"], ["--model", "hf:owner/repo/file.gguf"], install_line("hub")),
    ],
)
def test_an_extra_that_is_missing_is_named(
    missing: list[str], arguments: list[str], expected: str, here: Cogstep
) -> None:
    """The line is the one to type."""
    assert expected in single_line(here("run", "x", *arguments, without=missing))


@pytest.mark.llama
@pytest.mark.skipif(not find_spec("llama_cpp"), reason="no llama_cpp")
def test_a_context_that_is_too_short_is_named(here: Cogstep) -> None:
    """An option that doesn't fit the model is found before anything is asked."""
    assert "max_tokens" in single_line(here("run", "x", "--max-tokens", "1000000"))


@pytest.mark.llama
@pytest.mark.skipif(not find_spec("llama_cpp"), reason="no llama_cpp")
def test_a_model_without_a_chat_template_works_with_a_warning(cogstep: Cogstep, tmp_path: Path) -> None:
    """The user is told what is missing and what is done instead, and the model is asked all the same."""
    (shipped,) = SMALL_MODEL.glob("*.gguf")
    plain = shipped.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_nothing_")
    (tmp_path / "plain.gguf").write_bytes(plain)
    run = cogstep("run", "Hello", "--model", "plain.gguf", "--max-tokens", "4")

    assert run.returncode in (0, 1), run.stderr  # what it says then is beside the point
    assert "! " in run.stderr
    assert "chat template" in run.stderr


def test_a_full_disk_under_the_recording_is_one_line(cogstep: Cogstep) -> None:
    """Not even the header fits: nothing is asked."""
    run = cogstep(
        "run", "?", "--record", "s.jsonl", command=scripted('replies = ["391"]'),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip

    assert "could not be written (File too large)" in single_line(run)


def test_a_device_is_no_recording(here: Cogstep) -> None:
    """Not even one that takes everything."""
    for device in ("/dev/full", "/dev/null"):
        assert "is a device" in single_line(here("run", "?", "--record", device, replies=["391"]))


def test_a_disk_that_fills_up_keeps_what_was_recorded(cogstep: Cogstep, here: Cogstep, tmp_path: Path) -> None:
    """The turn ends at the record that does not fit; those before it replay."""
    script = 'replies = [call("calculate", expression="17 * 23"), "x" * 10_000]'
    run = cogstep(
        "run", "?", "--record", "s.jsonl", command=scripted(script),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000)),
    )  # fmt: skip
    replayed = here("replay", "s.jsonl")

    assert run.returncode == 2
    assert "s.jsonl: the record could not be written (File too large)" in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr
    assert replayed.returncode == 0, replayed.stderr
    assert "3 records" in replayed.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["run", "?", "--record", "s.jsonl"], ["run", "?", "--json"], ["--help"]])
def test_a_full_disk_under_the_output_is_one_line(
    arguments: list[str], cogstep: Cogstep, here: Cogstep, tmp_path: Path
) -> None:
    """The turn is cancelled, and the recording of it is complete."""
    with open("/dev/full", "w") as full:
        line = single_line(cogstep(*arguments, command=scripted(), stdout=full))

    assert "No space left on device" in line
    if "--record" in arguments:
        assert "1 turn" in here("replay", "s.jsonl").stdout


@pytest.mark.parametrize(
    "arguments", [["run", "?"], ["run", "?", "--json"], ["chat"], ["--help"], ["doctor", "--help"]]
)
def test_a_reader_that_has_gone_is_no_news(arguments: list[str], cogstep: Cogstep) -> None:
    """A closed pipe ends the command quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = cogstep(*arguments, command=scripted(), stdout=writing, input="hello\n")
    finally:
        os.close(writing)

    assert (run.returncode, run.stderr) == (141, "")


def test_closed_streams_are_no_trouble(cogstep: Cogstep, here: Cogstep) -> None:
    """With stdin, stdout and stderr closed there is nothing to read and nowhere to write, and the turn runs."""
    command = shlex.join([*scripted(), "run", "?", "--record", "s.jsonl"])
    run = cogstep("-c", f"{command} <&- >&- 2>&-", command=("sh",))

    assert run.returncode == 0
    assert "1 turn" in here("replay", "s.jsonl").stdout


def test_a_prompt_that_is_no_text_is_one_line(cogstep: Cogstep, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 can't be asked."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with open(tmp_path / "bytes") as stdin:
        line = single_line(cogstep("run", "-", command=scripted(), stdin=stdin))

    assert "stdin is no text" in line


# ------------------------------------------------------------------------------------------------------------- doctor


@pytest.mark.llama
@pytest.mark.mlx
@pytest.mark.skipif(not (find_spec("llama_cpp") or find_spec("mlx_lm")), reason="no backend")
def test_the_doctor_tries_each_backend_for_real(cogstep: Cogstep, tmp_path: Path) -> None:
    """It loads the shipped model, has the tool called, and looks at the answer; it leaves no trace."""
    run = cogstep("doctor", "--json")
    report = json.loads(run.stdout)
    findings = [entry["finding"] for entry in report["backends"] if entry["installed"]]

    assert (run.returncode, report["healthy"]) == (0, True)
    for found in findings:
        assert (found["works"], found["problem"], found["tool_called"]) == (True, "", True)
        assert "391" in found["answer"]
    assert list(tmp_path.iterdir()) == []


def test_help_has_the_install_lines_of_this_installation(here: Cogstep) -> None:
    """Those that the doctor recommends name the same source."""
    run = here("--help")

    assert f"  {install_line('mlx')}\n  {install_line('llama')}\n" in run.stdout
    assert "{install}" not in run.stdout


def test_the_doctor_finds_that_nothing_works(here: Cogstep) -> None:
    """Without a backend it exits with 1 and says what to install."""
    run = here("doctor", without=["llama_cpp", "mlx_lm"])

    assert run.returncode == 1
    assert "llama.cpp: not installed" in run.stdout
    assert install_line("mlx") in run.stdout
    assert run.stderr == ""
