"""Tool calls for models without native calls: a plain-text convention, described in the system prompt and parsed here.

``short_keys``: the reply is a JSON object, or an array of them, bare or in a fence::

    {"t": "I need the size", "a": "read", "i": {"path": "x"}}      a call
    {"f": "It is 3 kB."}                                           the final answer

``t`` is a thought, ``a`` the tool, ``i`` its input, ``f`` the final answer; ``c`` asks the user to confirm the call,
and ``r`` is something to remember. An object may have several keys, and each counts; an ``f`` beside an ``a`` holds
once the tool has succeeded.

``tool_tags``: ``<tool>read</tool><args>{"path": "x"}</args>``, any number of times. In both conventions an answer may
be in ``<response>...</response>``. Any other text is an answer too: only unreadable text that begins like the
convention is an error.

As in any format, a call that may be cut does not run, and no text that may belong to a call's input is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from cognition.base.strict_json import LAX_DECODER, DuplicateKeyError
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason
from cognition.values.tools import ToolSpec

TextProtocol = Literal["native", "short_keys", "tool_tags"]
"""How the model writes calls: in its own template's format, or in one of the conventions above."""

KEYS = frozenset("taifcr")
FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
OBJECT_START = re.compile(r"""\{\s*["'][taifcr]["']\s*:""")
ATTEMPT = re.compile(r"""\s*(?:```(?:json)?\s*)?(?:\[\s*)?\{\s*["'][taifcr]["']\s*:""")
"""The beginning of a text meant to follow the convention."""
NAMED = re.compile(r"""["']a["']\s*:\s*["']([^"']*)["']""")
"""The name of the tool in an object of the convention."""
BEGUN_ANSWER = re.compile(r"""["']f["']\s*:\s*"((?:[^"\\]|\\.)*)""", re.DOTALL)
"""The text of an answer, possibly cut."""
MOST_OBJECTS = 64
"""The most objects to look for in prose; each attempt may read to the end of the text."""
TAGGED = re.compile(r"<tool>\s*(.*?)\s*</tool>(?:\s*<args>(.*?)</args>)?", re.DOTALL)
CUT_INPUT = re.compile(r"\s*(?:<args>|(?:<|<a|<ar|<arg|<args)\Z)")
"""The beginning of an input after a call without one. The input has no end, or ``TAGGED`` would match it."""
PART_OF_OBJECT = re.compile(r"""(?:```(?:json)?\s*)?(?:\[\s*)?\{\s*["'](?:[taifcr](?:["']\s*)?)?\Z""")
BEGUN_NAME = re.compile(r"<tool>\s*([^\s<]*)(.?)", re.DOTALL)
"""A call in tags with an unfinished name, and whether anything follows the name."""
PART_OF_TAG = re.compile(r"<(?:t(?:o(?:ol?)?)?|/?r(?:e(?:s(?:p(?:o(?:n(?:se?)?)?)?)?)?)?|/)\Z")
"""A marker cut by the end of the reply."""
BEGUN_OBJECT = re.compile(r"\s*\{\s*[\"']")
RESPONSE = re.compile(r"<response>(.*?)(?:</response>|\Z)", re.DOTALL)

RETRY_NOTE = "Your reply could not be read: {reason}. Reply again in the agreed form."
"""The message to the model after an unreadable reply; it does not repeat the reply."""

INSTRUCTIONS: Mapping[TextProtocol, str] = {
    "native": "",
    "short_keys": (
        "You can use tools. Reply with one JSON object and nothing else: "
        '{"t": your thought, "a": tool name, "i": its input object} to call a tool, or {"f": your answer} to answer. '
        "For several calls reply with an array of objects. The tools:"
    ),
    "tool_tags": (
        "You can use tools. To call one, write <tool>name</tool><args>{input as JSON}</args>; "
        "to answer, write <response>your answer</response>. The tools:"
    ),
}


NO_COMPLETE_JSON = "it begins like a call and is no complete JSON"
MISPLACED = (
    'the call of {!r} is not in the agreed form: its input has to stand in "i", "c" is true or false, '
    "t, a, f and r are texts, and there are no other keys"
)


def _repair_value(text: str, *, ended: bool = True) -> Any:
    """Return the repaired JSON value of a text, or None.

    ``ended``: the text is known to be complete. Otherwise a call without its closing brace does not count: it may be
    cut.
    """
    from cognition.parsing._repair import MISSING_BRACE, repair_json  # only here: the core alone imports no parser

    mended = repair_json(text)
    if mended is None:
        return None
    calls = any(isinstance(one, dict) and "a" in one for one in _as_list(mended.value))
    return None if calls and not ended and MISSING_BRACE in mended.repairs else mended.value


@frozen
class ParsedReply:
    """The parsed content of a reply in a text protocol."""

    answer: str = ""
    reasoning: str = ""
    calls: tuple[ProposedCall, ...] = ()
    malformed: tuple[MalformedToolCall, ...] = ()
    remember: tuple[str, ...] = ()


def instructions(protocol: TextProtocol, system: str, tools: tuple[ToolSpec, ...]) -> str:
    """Return the system prompt with a description of the convention and the tools."""
    return append_instructions(system, describe_tools(protocol, tools))


def describe_tools(protocol: TextProtocol, tools: tuple[ToolSpec, ...]) -> str:
    """Return the description of the convention and the tools; empty if the template describes them."""
    if protocol == "native" or not tools:
        return ""
    described = (f"- {tool.name}: {tool.description} Input: {json.dumps(tool.parameters)}" for tool in tools)
    return "\n".join((INSTRUCTIONS[protocol], *described))


def append_instructions(system: str, told: str) -> str:
    """Return the system prompt followed by the output of ``describe_tools``."""
    return f"{system}\n\n{told}" if system and told else system or told


def read_text(
    protocol: TextProtocol, text: str, tools: Mapping[str, ToolSpec], finish_reason: FinishReason = "stop"
) -> ParsedReply:
    """Read a reply in a text protocol. Any text that does not begin like the convention is an answer, JSON too."""
    cut = finish_reason in ("length", "cancelled", "error")
    if protocol == "tool_tags":
        return _read_tags(text, tools, cut=cut)
    objects, around, problems = _objects(text, tools)
    if not objects:
        if not problems and ATTEMPT.match(text) and _repair_value(text.strip(), ended=False) is None:
            problems = [MalformedToolCall(text, NO_COMPLETE_JSON)]  # otherwise it is JSON that was meant as an answer
        if problems:
            return ParsedReply(malformed=tuple(problems))
        return ParsedReply(answer=_answer(PART_OF_TAG.sub("", _before_cut(text)) if cut else text))
    reading = _from_objects(objects, tools)
    thoughts = "\n".join(part for part in (around, reading.reasoning) if part)
    return ParsedReply(reading.answer, thoughts, reading.calls, (*reading.malformed, *problems), reading.remember)


def answer_so_far(protocol: TextProtocol, text: str, tools: Mapping[str, ToolSpec]) -> str:
    """Return the partial answer in a cut reply, as text for the user."""
    if protocol == "native":
        return text
    answer = read_text(protocol, text, tools, "length").answer
    if answer or protocol != "short_keys" or NAMED.search(text):
        return answer
    begun = BEGUN_ANSWER.search(text)
    return "" if begun is None else _unescape_beginning(begun[1])


def _unescape_beginning(text: str) -> str:
    """Decode the beginning of a JSON text, without an escape that was cut."""
    for part in (text, text[: text.rfind("\\")]):
        try:
            return str(json.loads(f'"{part}"', strict=False))
        except ValueError:
            continue
    return text


def _before_cut(text: str) -> str:
    """Return the text of a cut reply before the unfinished object of the convention."""
    position = 0
    for _ in range(MOST_OBJECTS):
        start = OBJECT_START.search(text, position)
        if start is None:
            break
        try:
            position = LAX_DECODER.raw_decode(text, start.start())[1]
        except (ValueError, RecursionError) as error:
            position = start.end()
            rest = text[position:].strip()
            if not rest or text[position : getattr(error, "pos", len(text))].strip() or rest.startswith('"'):
                return text[: start.start()]
    return PART_OF_OBJECT.sub("", text)


def _answer(text: str) -> str:
    marked = RESPONSE.search(text)
    return marked.group(1).strip() if marked else text


def _objects(text: str, tools: Mapping[str, ToolSpec]) -> tuple[list[dict[str, Any]], str, list[MalformedToolCall]]:
    """Return the objects of the convention in a text, the text around them, and the unreadable objects."""
    for candidate, around in (*((m.group(1), FENCE.sub("", text)) for m in FENCE.finditer(text)), (text, "")):
        fenced = candidate is not text
        values = _as_list(_repair_value(candidate.strip(), ended=fenced))
        if values and all(_is_ours(value) for value in values):
            return (_objects_in_fences(text) if fenced else values), around.strip(), []
    return _objects_in_prose(text, tools)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _objects_in_fences(text: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    for match in FENCE.finditer(text):
        objects += [value for value in _as_list(_repair_value(match.group(1).strip())) if _is_ours(value)]
    return objects


def _objects_in_prose(
    text: str, tools: Mapping[str, ToolSpec]
) -> tuple[list[dict[str, Any]], str, list[MalformedToolCall]]:
    """``_objects`` for a text with other content.

    The search ends at the first unreadable object that begins right, since all later text may be part of it.
    """
    objects, prose, problems, position = list[dict[str, Any]](), list[str](), list[MalformedToolCall](), 0
    for _ in range(MOST_OBJECTS):
        start = OBJECT_START.search(text, position)
        if start is None:
            break
        try:
            value, end = LAX_DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError) as error:
            if not text[start.end() : getattr(error, "pos", len(text))].strip():  # no value follows the first key
                prose.append(text[position : start.end()])
                position = start.end()
                continue
            named = NAMED.search(text, start.start())
            if (named and named[1] in tools) or any("a" in one for one in objects):
                reason = str(error) if isinstance(error, DuplicateKeyError) else NO_COMPLETE_JSON
                raw = text[start.start() :] if objects or not ATTEMPT.match(text) else text
                problems.append(MalformedToolCall(raw, reason))
            break
        if _is_ours(value):
            prose.append(text[position : start.start()])
            objects.append(value)
        else:
            prose.append(text[position:end])
            if isinstance(value.get("a"), str) and value["a"] in tools:
                problems.append(MalformedToolCall(text[start.start() : end], MISPLACED.format(value["a"])))
        position = end
    prose.append(text[position:])
    return objects, "".join(prose).strip(), problems


def _is_ours(value: Any) -> bool:
    """Return whether an object follows the convention: only its keys and types, and an action or a text."""
    return (
        isinstance(value, dict)
        and bool(value)
        and value.keys() <= KEYS
        and all(isinstance(value.get(key, ""), str) for key in "tafr")
        and isinstance(value.get("c", False), bool)
        and not value.keys() <= {"i", "c"}
    )


def _from_objects(objects: list[dict[str, Any]], tools: Mapping[str, ToolSpec]) -> ParsedReply:
    calls: list[ProposedCall] = []
    malformed: list[MalformedToolCall] = []
    for item in objects:
        if "a" in item:
            arguments, problem = _arguments(item["a"], item.get("i", {}), tools)
            if arguments is None:
                malformed.append(MalformedToolCall(json.dumps(item, ensure_ascii=False), problem))
            else:
                calls.append(ProposedCall(item["a"], arguments, confirm=item.get("c", False)))

    answers, thoughts, notes = ([item[key] for item in objects if item.get(key)] for key in "ftr")
    return ParsedReply("\n".join(answers), "\n".join(thoughts), tuple(calls), tuple(malformed), tuple(notes))


def _arguments(name: str, value: Any, tools: Mapping[str, ToolSpec]) -> tuple[dict[str, Any] | None, str]:
    """Return the input of a call as an object, or None and the error.

    The input may be an object, JSON in a text, or the plain text of the tool's only parameter.
    """
    if isinstance(value, str):
        mended = _repair_value(value) if value.lstrip().startswith("{") else None
        if isinstance(mended, dict):
            return mended, ""
        if BEGUN_OBJECT.match(value):  # it would be the text that a tool runs, such as a command
            return None, f"the input of {name!r} begins like a JSON object and can't be read as one"
        properties = tools[name].parameters.get("properties", {}) if name in tools else {}
        # a schema may also be a plain true or false
        texts = [key for key, one in properties.items() if isinstance(one, dict) and one.get("type") == "string"]
        if len(texts) == len(properties) == 1:
            return {texts[0]: value}, ""
        return None, f"the input of {name!r} must be a JSON object"
    if isinstance(value, dict):
        return value, ""
    return None, f"the input of {name!r} must be a JSON object, not {type(value).__name__}"


def _read_tags(text: str, tools: Mapping[str, ToolSpec], *, cut: bool) -> ParsedReply:
    calls: list[ProposedCall] = []
    malformed: list[MalformedToolCall] = []
    for match in TAGGED.finditer(text):
        name, raw = match.group(1), match.group(2)
        if raw is None and (CUT_INPUT.match(text, match.end()) or (cut and not text[match.end() :].strip())):
            malformed.append(MalformedToolCall(text[match.start() :], f"the input of {name!r} is not complete"))
            text = text[: match.start()]  # what stands behind it, stands in its input
            break
        arguments, problem = ({}, "") if raw is None or not raw.strip() else _arguments(name, raw.strip(), tools)
        if arguments is None:
            malformed.append(MalformedToolCall(match.group(0), problem))
        else:
            calls.append(ProposedCall(name, arguments))
    rest = TAGGED.sub("", text)
    begun = _find_begun_call(rest, tools, cut=cut, beside=bool(calls or malformed))
    if begun is not None:
        malformed.append(MalformedToolCall(rest[begun:], "<tool> is not closed"))
        rest = rest[:begun]
    marked = RESPONSE.search(rest)
    if calls or malformed:
        return ParsedReply(
            marked.group(1).strip() if marked else "",
            RESPONSE.sub("", rest).strip(),
            tuple(calls),
            tuple(malformed),
        )
    return ParsedReply(answer=_answer(PART_OF_TAG.sub("", text) if cut else text))


def _find_begun_call(rest: str, tools: Mapping[str, ToolSpec], *, cut: bool, beside: bool) -> int | None:
    """Return the index of a call with an unfinished name, or None: an answer may also mention ``<tool>``.

    It counts as a call in these cases:

    - the reply begins with it
    - it names an existing tool
    - the reply was cut, and the text may be the start of a tool's name
    - the reply was cut after other calls (``beside``)
    """
    if not beside and rest.lstrip().startswith("<tool>"):
        return 0
    for start in BEGUN_NAME.finditer(rest):
        name, more = start.groups()
        about_to = cut and (beside or (not more and any(tool.startswith(name) for tool in tools)))
        if about_to or name in tools:
            return start.start()
    return None
