"""``cogstep format`` and ``cogstep parse``: a template looked at, a saved output read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cognition.parsing import FORMATS, HERMES, PLAIN, FormatSpec
from cognition.parsing.formats import GPT_OSS, QWEN3_CODER
from cognition.steps.codec import from_data
from interpreters.cli.reports.format_report import spec_lines
from runtime.models.installation import install_lines
from runtime.models.specs import SMALL_MODEL
from tests.interpreters.cli.processes import Cogstep
from tests.runtime import chat_templates

CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 17, "b": 23}}\n</tool_call>'
REPLY = f"<think>\nA product.\n</think>\n\nOne moment.\n{CALL}<|im_end|>\n"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A chat template in a file."""
    path = tmp_path / "chat.jinja"
    path.write_text(chat_templates.HERMES_LIKE)
    return path


# -------------------------------------------------------------------------------------------------------------- format


def test_the_shipped_model_is_looked_at(cogstep: Cogstep, tmp_path: Path) -> None:
    """Without a model's name it is the one that ships; nothing is written, and no backend is loaded for it."""
    run = cogstep("format")

    assert (run.returncode, run.stderr) == (0, "")
    assert '<tool_call>{"name": N, "arguments": {K: V}}</tool_call>' in run.stdout
    assert "reasoning: rendered with an answer, and read back" in run.stdout
    assert "✓ several calls in one reply" in run.stdout
    assert '  | {"name": "multiply", "arguments": {"a": 17, "b": 23}}' in run.stdout
    assert list(tmp_path.iterdir()) == []


def test_no_backend_is_loaded_for_it(here: Cogstep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template can be looked at where neither llama.cpp nor MLX is installed."""
    run = here("format", without=["llama_cpp", "mlx_lm", "mlx"])

    assert (run.returncode, run.stderr) == (0, "")


def test_without_jinja2_a_line_says_what_to_install(here: Cogstep, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with each backend; the written formats do without."""
    for name in [name for name in sys.modules if name.startswith("runtime.") and "errors" not in name]:
        package, _, child = name.rpartition(".")
        monkeypatch.setattr(sys.modules[package], child, sys.modules[name])  # what is imported anew takes its place
    for name in [name for name in sys.modules if name.startswith("runtime.") and "errors" not in name]:
        monkeypatch.delitem(sys.modules, name)
    run = here("format", without=["jinja2"])
    parsed = here("parse", "-", "--format", "hermes", input="Hi", without=["jinja2"])

    assert (run.returncode, run.stdout) == (2, "")
    assert install_lines("llama", "mlx") in run.stderr
    assert parsed.returncode == 0


def test_the_report_as_json_is_all_of_it(cogstep: Cogstep, template: Path) -> None:
    """The format goes back into a value; the sample is what the model would be given."""
    run = cogstep("format", template.name, "--json")
    data = json.loads(run.stdout)

    assert (run.returncode, run.stderr) == (0, "")
    assert from_data(data["format"], FormatSpec) == HERMES
    assert data["source"] == template.name
    assert data["found_by"][0].startswith("stop: '<|im_end|>'")
    assert all(data["supported"].values())
    assert data["warnings"] == data["sample_notes"] == []
    assert data["sample"].endswith("<|im_start|>assistant\n")
    assert CALL in data["sample"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NO_TOOLS", "! the chat template has no place for tools: the model is not told of them"),
        ("NO_TOOLS", "· several calls in one reply: no"),
        ("TEXT_ARGUMENTS", "the template wants a call's arguments as JSON text: it gets them so"),
        ("STRICT", "! the template has no system role: the system prompt precedes the first message"),
        ("STRICT", "! the template has no form for calls and their results: they are told as text"),
        ("GOES_THROUGH_TOOLS", "the template fails where tools are None: without tools it gets an empty list"),
        ("CHANNELS_WITH_EFFORT", "no reasoning is asked for by reasoning_effort='low', which asks for little of it"),
        ("OPENS_REASONING", "<reasoning> ... </reasoning>, begun by the prompt"),
    ],
)
def test_what_a_template_lacks_is_said(name: str, expected: str, here: Cogstep, template: Path) -> None:
    """Warnings, what is not supported, and how the sample had to be bent."""
    template.write_text(getattr(chat_templates, name))

    assert expected in here("format", template.name).stdout


def test_a_conversation_that_is_refused_is_told(here: Cogstep, template: Path) -> None:
    """There is no sample then, and the template's own words say why."""
    template.write_text("{{ raise_exception('no, ' + messages[0].role) }}")
    run = here("format", template.name)

    assert run.returncode == 0
    assert "nothing was found: output is shown as it comes" in run.stdout
    assert "! the chat template refuses the conversation: no, system" in run.stdout


def test_a_model_without_a_template_gets_the_fallback(here: Cogstep, tmp_path: Path) -> None:
    """As ``cogstep run`` does it, and it says so."""
    (shipped,) = SMALL_MODEL.glob("*.gguf")
    (tmp_path / "plain.gguf").write_bytes(shipped.read_bytes().replace(b"chat_template", b"chat_nothing_"))
    run = here("format", "plain.gguf")

    assert run.returncode == 0
    assert "! it has no chat template: cogstep's own is used instead" in run.stdout
    assert "<tool_call>" in run.stdout


@pytest.mark.parametrize("spec", FORMATS.values(), ids=list(FORMATS))
def test_each_part_of_a_format_is_shown(spec: FormatSpec) -> None:
    """Every marker of every written format is in the lines for people, on one line each."""
    lines = [text for _, text in spec_lines(spec)]
    shown = "\n".join(lines).replace("\\n", "\n")
    calls = spec.calls
    markers = [*spec.dropped, *spec.stops, spec.prompted]
    if spec.reasoning is not None:
        markers += [spec.reasoning.start, spec.reasoning.end]
    if calls is not None:
        markers += [calls.start, calls.end, calls.section_start, calls.section_end, *calls.more_starts]

    assert [marker for marker in markers if marker not in shown] == []
    assert len(lines) == len("\n".join(lines).splitlines())


def test_formats_are_drawn_as_their_calls_stand_in_a_reply() -> None:
    """What a newcomer reads is the wire format."""
    assert dict(spec_lines(PLAIN)) == {"": "no markers: all of a reply is text"}
    assert dict(spec_lines(QWEN3_CODER))["calls"] == (
        "<tool_call><function=N><parameter=K>V</parameter>...</function></tool_call>"
    )
    assert dict(spec_lines(GPT_OSS))["calls"] == (
        "<|start|>assistant to=functions.N<|constrain|>ID<|message|>{K: V}<|call|>"
    )


# --------------------------------------------------------------------------------------------------------------- parse


def test_a_saved_output_is_read(cogstep: Cogstep, tmp_path: Path) -> None:
    """Reasoning, text and calls, each under its own heading."""
    (tmp_path / "output.txt").write_text(REPLY)
    run = cogstep("parse", "output.txt", "--format", "hermes")

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == (
        'format hermes\nreasoning\n  A product.\ntext\n  One moment.\ncall 1\n  multiply {"a": 17, "b": 23}\n'
    )


def test_an_output_may_come_from_stdin_and_go_on_as_json(cogstep: Cogstep) -> None:
    """A pipe on either side, in the format of the model that ships."""
    run = cogstep("parse", "-", "--json", input=REPLY)

    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == {
        "format": "hermes",
        "text": "One moment.",
        "reasoning": "A product.",
        "calls": [
            {"name": "multiply", "arguments": {"a": 17, "b": 23}, "repairs": [], "terminated": True, "problem": ""}
        ],
        "malformed": [],
    }


@pytest.mark.parametrize("name", ["hermes", "chat.jinja", "spec.json", "bare.json"])
def test_a_format_has_many_names(name: str, here: Cogstep, template: Path, tmp_path: Path) -> None:
    """Its own, a template to derive it from, what ``cogstep format --json`` wrote, or the format alone."""
    report = json.loads(here("format", template.name, "--json").stdout)
    (tmp_path / "spec.json").write_text(json.dumps(report))
    (tmp_path / "bare.json").write_text(json.dumps(report["format"]))

    assert json.loads(here("parse", "-", "--format", name, "--json", input=REPLY).stdout)["text"] == "One moment."


def test_what_was_mended_or_cut_is_told(here: Cogstep) -> None:
    """A call that was read with help says what was done to it; one that was cut says that it was."""
    mended = here("parse", "-", "--format", "hermes", input='<tool_call>{"name": "f", "arguments": {},}</tool_call>')
    cut = here("parse", "-", "--format", "hermes", input=CALL.removesuffix("</tool_call>"))

    assert (mended.returncode, cut.returncode) == (0, 0)
    assert "  mended: trailing comma\n" in mended.stdout
    assert "  the reply ended before the call's end marker\n" in cut.stdout


def test_a_call_that_cannot_be_read_is_the_exit_code(here: Cogstep) -> None:
    """1, with the reason and all of its text; a call that the token limit cut is never completed."""
    broken = here("parse", "-", "--format", "hermes", input="<tool_call>{bad\nthing}</tool_call> Hi")
    cut = here("parse", "-", "--format", "hermes", "--finish-reason", "length", "--json", input=CALL[:40])

    assert broken.returncode == cut.returncode == 1
    assert broken.stdout.startswith("format hermes\ntext\n  Hi\ncall 1 can't be read: not valid JSON")
    assert broken.stdout.endswith("\n  {bad\n  thing}\n")
    assert "reached the token limit inside the call" in json.loads(cut.stdout)["malformed"][0]["reason"]


@pytest.mark.parametrize("around", ["{}", '{{"tools": {}}}'])
def test_tools_type_the_values_and_tell_strange_names(around: str, here: Cogstep, tmp_path: Path) -> None:
    """``5`` is a number where the schema wants one; a name that no tool has gets the nearest ones."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}, {"name": "other"}]
    (tmp_path / "tools.json").write_text(around.replace("{{", "{").replace("}}", "}").replace("{}", json.dumps(tools)))
    values = "<parameter=n>\n5\n</parameter>\n<parameter=t>\n5\n</parameter>"
    call = f"<tool_call>\n<function={{}}>\n{values}\n</function>\n</tool_call>"
    known, unknown = (
        here("parse", "-", "--format", "qwen3_coder", "--tools", "tools.json", "--json", input=call.format(name))
        for name in ("look", "lock")
    )
    shown = here("parse", "-", "--format", "qwen3_coder", "--tools", "tools.json", input=call.format("zzz"))

    assert json.loads(known.stdout)["calls"][0]["arguments"] == {"n": 5, "t": "5"}
    assert json.loads(known.stdout)["calls"][0]["problem"] == ""
    assert json.loads(unknown.stdout)["calls"][0]["problem"] == "there is no tool 'lock'; did you mean look?"
    assert "  there is no tool 'zzz'\n" in shown.stdout


def test_an_empty_output_is_no_trouble(here: Cogstep) -> None:
    """It is told that there is nothing."""
    run = here("parse", "-", "--format", "hermes")

    assert (run.returncode, run.stdout) == (0, "format hermes\nnothing is in it\n")
