"""The output of ``cogstep format`` about a template, as plain data and as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, ToolCall, ToolMessage, UserMessage
from cognition.parsing import CallFormat, FormatSpec
from cognition.steps.codec import to_data
from cognition.values.tools import ToolSpec
from interpreters.cli.screen.styled import Style
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates.files import TemplateFile

if TYPE_CHECKING:
    from runtime.templates.template import ChatTemplate

NO_TEMPLATE = "it has no chat template: cogstep's own is used instead (ChatML, with calls as Hermes writes them)"

SAMPLE_TOOL = ToolSpec(
    "multiply",
    "Multiply two whole numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)
SAMPLE_CALL = ToolCall("call00001", "multiply", '{"a": 17, "b": 23}')
SAMPLE_SYSTEM = "You are helpful."
SAMPLE = History(
    (
        UserMessage("m1", "What is 17 * 23?"),
        AssistantMessage("m2", reasoning="I had better multiply.", calls=(SAMPLE_CALL,)),
        ToolMessage("m3", SAMPLE_CALL.id, "multiply", "391"),
    )
)
"""An unfinished turn: the model has called a tool and must continue."""
PLAIN_SAMPLE = History(
    (UserMessage("m1", "Hello"), AssistantMessage("m2", "Hello!"), UserMessage("m3", "How are you?"))
)
"""For templates that refuse calls."""


@frozen
class Sample:
    """The sample conversation as rendered by the template."""

    text: str
    notes: tuple[str, ...]
    """How the conversation was adapted to this template, or why the template refuses it."""


def sample_of(template: ChatTemplate) -> Sample:
    """Return the longest sample that the template accepts.

    Raises:
        TemplateStoppedError: the template was stopped.
    """
    refusal = ""
    for messages, tools in ((SAMPLE, (SAMPLE_TOOL,)), (PLAIN_SAMPLE, ())):
        try:
            rendered = template.render(ModelRequest(SAMPLE_SYSTEM, messages, tools, GenerationOptions()))
        except TemplateStoppedError:
            raise
        except TemplateError as error:
            refusal = refusal or str(error)
        else:
            notes = ("the template refuses a conversation with a call: this one has none",) if refusal else ()
            return Sample(rendered.text, (*notes, *rendered.notes))
    return Sample("", (refusal,))


SUPPORT: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "system": ("a system prompt", lambda found: "system" in found.features),
    "tools": ("tools are told to the model, and its calls are read", lambda found: "tools" in found.features),
    "calls": ("calls in a reply are read", lambda found: found.spec.calls is not None),
    "parallel_calls": ("several calls in one reply", lambda found: found.parallel_calls),
    "thinking": ("reasoning is told apart from the answer", lambda found: "thinking" in found.features),
    "thinking_option": ("reasoning can be asked for or not (--no-thinking)", lambda found: found.thinking_option),
}
"""What a template may support: the name in ``--json``, the meaning, and how a derivation shows it."""

NO_TOOLS_SAID = {"empty": "without tools it gets an empty list", "undefined": "without tools it gets no such variable"}


def format_data(file: TemplateFile, template: ChatTemplate, sample: Sample, notes: tuple[str, ...]) -> dict[str, Any]:
    """Return the report as plain data. ``cogstep parse --format`` and ``cognition.steps.codec`` read its ``format``."""
    found = template.derivation
    return {
        "source": file.origin,
        "format": to_data(found.spec),
        "found_by": list(found.evidence),
        "supported": {name: shows(found) for name, (_, shows) in SUPPORT.items()},
        "text_arguments": found.text_arguments,
        "reasoning_key": found.reasoning_key,
        "no_thinking": None if found.switch is None else str(found.switch),
        "no_tools": found.no_tools,
        "warnings": [*notes, *found.warnings],
        "sample": sample.text,
        "sample_notes": list(sample.notes),
    }


# ---------------------------------------------------------------------------------------------------------- as text


def format_lines(
    file: TemplateFile, template: ChatTemplate, sample: Sample, notes: tuple[str, ...]
) -> Iterator[tuple[str, Style]]:
    found = template.derivation
    yield f"{file.origin}: {found.spec.name}", "plain"
    for what, text in spec_lines(found.spec):
        yield f"  {what:10} {text}", "call"
    yield "", "plain"
    yield "How it was found:", "plain"
    for sentence in found.evidence or ("nothing was found: output is shown as it comes",):
        yield f"  {sentence}", "plain"
    yield "", "plain"
    yield "What is supported:", "plain"
    for meaning, shows in SUPPORT.values():
        yield (f"  ✓ {meaning}", "plain") if shows(found) else (f"  · {meaning}: no", "dim")
    if found.switch is not None:
        little = ", which asks for little of it: the template can't ask for none" if found.switch.weak else ""
        yield f"  no reasoning is asked for by {found.switch}{little}", "plain"
    if found.no_tools in ("empty", "undefined"):
        yield f"  the template fails where tools are None: {NO_TOOLS_SAID[found.no_tools]}", "plain"
    if found.text_arguments:
        yield "  the template wants a call's arguments as JSON text: it gets them so", "plain"
    for warning in (*notes, *found.warnings):
        yield f"  ! {warning}", "warning"
    yield "", "plain"
    yield "A sample of what the model is given, up to where it goes on:", "plain"
    for note in sample.notes:
        yield f"  ! {note}", "warning"
    for line in sample.text.rstrip("\n").split("\n"):
        yield f"  | {line.expandtabs()}", "dim"


def spec_lines(spec: FormatSpec) -> Iterator[tuple[str, str]]:
    r"""Yield the parts of a format with their markers as in a reply; line breaks as ``\n``."""
    if spec.reasoning is not None:
        opened = ", begun by the prompt" if spec.reasoning.opened else ""
        yield "reasoning", f"{_escape(spec.reasoning.start)} ... {_escape(spec.reasoning.end)}{opened}"
    if spec.calls is not None:
        yield "calls", _escape(_around(spec.calls))
        for start in spec.calls.more_starts:
            yield "", f"may begin with {_escape(start)}"
    for name, marks in (("dropped", spec.dropped), ("stops", spec.stops)):
        if marks:
            yield name, "  ".join(map(_escape, marks))
    if spec.prompted:
        yield "prompted", _escape(spec.prompted)
    if spec.reasoning is None and spec.calls is None and not spec.dropped and not spec.stops:
        yield "", "no markers: all of a reply is text"


def _around(calls: CallFormat) -> str:
    one = f"{calls.start}{_picture(calls)}{calls.end}"
    many = "" if calls.shape == "pythonic" else f"{calls.separator}..."
    return f"{calls.section_start}{one}{many if calls.section_start else ''}{calls.section_end}"


def _picture(calls: CallFormat) -> str:
    """Return one call without its markers: N is its name, K a parameter, V a value."""
    match calls.shape:
        case "json_object":
            return f'{{"{calls.fields.name}": N, "{calls.fields.arguments}": {{K: V}}}}'
        case "name_as_key":
            return "{N: {K: V}}"
        case "named_json":
            effect_id = f"{calls.id_start}ID" if calls.id_start else ""
            return f"{calls.name_start}N{effect_id}{calls.name_end}{{K: V}}{calls.body_end}"
        case "tagged_parameters" | "nested_tags":
            marks = calls.parameters
            assert marks is not None  # CallFormat's own check
            again = f"K{marks.key_end}" if calls.shape == "nested_tags" else ""
            parameter = f"{marks.key_start}K{marks.key_end}{marks.value_start}V{marks.value_end}{again}"
            return f"{calls.name_start}N{calls.name_end}{parameter}...{calls.body_end}"
        case "pythonic":
            return "[N(K=V), ...]"
        case "named_object":
            return f"{calls.name_start}N{{K:{calls.quotes[0]}V{calls.quotes[0]}}}"


def _escape(text: str) -> str:
    return text.replace("\n", "\\n")
