"""Input of ``cogstep parse``, and the display of text, reasoning and calls in a saved output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition.base.display import shown_json, shown_name
from cognition.base.errors import CodecError, ConfigError
from cognition.base.strict_json import LENIENT
from cognition.parsing import FORMATS, CallFinished, CallMalformed, FormatSpec, Output, Parser, collect
from cognition.steps.codec import from_data
from cognition.values.outcomes import FinishReason
from cognition.values.tools import ToolSpec
from interpreters.cli._errors import CommandError, reason_of
from interpreters.cli.screen.line_input import read_stdin
from interpreters.cli.screen.styled import Style
from interpreters.tools.tool_lists import ListedDefinition, decode_listing, read_listing
from runtime.files import read_regular
from runtime.templates.files import find_template, open_template

LONGEST = 1 << 26
"""Largest input file in bytes, 64 MiB: a saved output, a list of tools, a format."""


@frozen
class ParsedOutput:
    """A parsed output."""

    format: str
    outputs: tuple[Output, ...]
    known: tuple[str, ...] | None
    """Names of the offered tools; None without ``--tools``."""

    @property
    def readable(self) -> bool:
        """Whether every call in it can be read."""
        return not any(isinstance(output, CallMalformed) for output in self.outputs)


def parse_text(spec: FormatSpec, text: str, tools: Sequence[ToolSpec] | None, reason: FinishReason) -> ParsedOutput:
    """Parse a whole text."""
    parser = Parser(spec, tools or ())
    outputs = (*parser.feed(text), *parser.finish(reason))
    return ParsedOutput(spec.name, outputs, None if tools is None else tuple(tool.name for tool in tools))


# ------------------------------------------------------------------------------------------------- what is read with


def find_format(name: str | None) -> FormatSpec:
    """Return the format that the command line names: a built-in one, one in a JSON file, or that of a model or
    template.

    Raises:
        CommandError: there is no such format, file or model.
        ModelLoadError: the named model or template can't be used.
    """
    if name is not None and name in FORMATS:
        return FORMATS[name]
    if name is not None and name.endswith(".json"):
        return _read_spec(name)
    if name is not None and "/" not in name and "." not in name and not Path(name).exists():
        close = get_close_matches(name, FORMATS, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(FORMATS)}"
        raise CommandError(f"there is no format {name!r}; {hint}")
    return open_template(find_template(name)).format_spec()


def _read_spec(path: str) -> FormatSpec:
    data = _read_json(path)
    if isinstance(data, dict) and isinstance(data.get("format"), dict):
        data = data["format"]  # the whole of what `cogstep format --json` prints
    try:
        found: FormatSpec = from_data(data, FormatSpec)
    except (CodecError, ConfigError) as error:
        raise CommandError(f"{path} holds no format ({error}); `cogstep format --json` writes one") from error
    return found


def read_tools(path: str) -> tuple[ToolSpec, ...]:
    """Read tools from a list in the form of an OpenAI request or an MCP server."""
    found = []
    for tool in list_tools(path):
        if tool.spec is None:
            raise CommandError(f"{path}: tool {tool.place}: {tool.problem}")
        found.append(tool.spec)
    return tuple(found)


def list_tools(path: str) -> tuple[ListedDefinition, ...]:
    """Return the tools in a file, including the unusable ones."""
    try:
        return read_listing(_read_json(path, decode_listing))
    except ConfigError as error:
        raise CommandError(f"{path} holds {error}") from error


def _read_json(path: str, decode: Callable[[str], Any] = LENIENT.decode) -> Any:
    try:
        return decode(_read(path).removeprefix("\ufeff"))  # which some editors put before a text
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not valid JSON ({error})") from error


def read_text(path: str) -> str:
    """Return the saved output; ``-`` reads it from stdin."""
    return read_stdin() if path == "-" else _read(path)


def _read(path: str) -> str:
    try:
        # Decoded as it is: a carriage return that a model wrote is what it wrote.
        return read_regular(path, LONGEST).decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is no text in UTF-8; save the output as text") from error
    except OSError as error:
        raise CommandError(f"{path}: {reason_of(error)}") from error


# ------------------------------------------------------------------------------------------------------- what it says


def unknown_tool(name: str, known: Sequence[str] | None) -> str:
    """Return a complaint about an unknown tool name; empty if it is known."""
    if known is None or name in known:
        return ""
    close = get_close_matches(name, known, n=3)
    return f"there is no tool {shown_name(repr(name))}" + (f"; did you mean {' or '.join(close)}?" if close else "")


def output_data(parsed: ParsedOutput) -> dict[str, Any]:
    reply = collect(parsed.outputs)
    return {
        "format": parsed.format,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "calls": [
            {
                "name": output.call.name,
                "arguments": LENIENT.decode(output.call.arguments_json),
                "repairs": list(output.call.repairs),
                "terminated": output.terminated,
                "problem": unknown_tool(output.call.name, parsed.known),
            }
            for output in parsed.outputs
            if isinstance(output, CallFinished)
        ],
        "malformed": [{"raw": item.raw, "reason": item.reason} for item in reply.malformed],
    }


def output_lines(parsed: ParsedOutput) -> Iterator[tuple[str, Style]]:
    reply = collect(parsed.outputs)
    yield f"format {parsed.format}", "dim"
    for title, text, style in (("reasoning", reply.reasoning, "dim"), ("text", reply.text, "plain")):
        if text:
            yield title, "plain"
            for line in text.split("\n"):
                yield f"  {line.expandtabs()}", style  # type: ignore[misc]  # a tuple's texts are not seen to be styles
    for output in parsed.outputs:
        if isinstance(output, CallFinished):
            yield f"call {output.index + 1}", "plain"
            yield f"  {shown_name(output.call.name)} {shown_json(output.call.arguments_json)}", "call"
            for repair in output.call.repairs:
                yield f"  mended: {repair}", "warning"
            if not output.terminated:
                yield "  the reply ended before the call's end marker", "warning"
            if problem := unknown_tool(output.call.name, parsed.known):
                yield f"  {problem}", "warning"
        elif isinstance(output, CallMalformed):
            yield f"call {output.index + 1} can't be read: {output.malformed.reason}", "error"
            for line in output.malformed.raw.split("\n"):
                yield f"  {line.expandtabs()}", "dim"
    if not parsed.outputs:
        yield "nothing is in it", "plain"
