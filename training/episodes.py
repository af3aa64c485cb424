"""Episodes: one request until its final answer, with the expected calls, the tools' results and the reasoning.

An episode maker takes (source, world, last result) and gives an `Episode`, or None where the world has no tools for it.
Sequences, whose second step needs the first one's result, are in sequences.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training.families import ARITHMETIC, FAMILIES, OPERATIONS, Tool, dumps, operands, present, result, say
from training.grammar import branch, expand, request
from training.phrasings import NO_TOOL
from training.small_talk import SMALL_TALK, TOOL_NAMES_HELD, TOOL_NAMES_TRAIN
from training.values import EXTENSIONS, LANGUAGES, Source, cap, city, name, number, path, phrase, word
from training.worlds import World

HAVE = "I have the result."
SPOKEN = 0.22  # share of requests to `calculate` that are put in words: "17 times 23" -> "17 * 23"

Message = dict[str, Any]
Call = dict[str, Any]


@dataclass(frozen=True)
class Episode:
    kind: str
    messages: list[Message]
    calls: tuple[tuple[Call, ...], ...] = ()  # by step: what must be called, in order
    carries: tuple[str, ...] = ()  # results that the final answer rests on
    last: tuple[str, str] | None = None  # (family, result) for a follow-up request

    @property
    def answer(self) -> str:
        return str(self.messages[-1]["content"])


Maker = Callable[[Source, World, tuple[str, str] | None], Episode | None]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def tool_says(text: str) -> Message:
    return {"role": "tool", "content": text}


def assistant(thought: str, text: str = "", calls: tuple[Call, ...] = ()) -> Message:
    message: Message = {"role": "assistant", "content": text, "reasoning_content": thought}
    if calls:
        message["tool_calls"] = [{"type": "function", "function": c} for c in calls]
    return message


def call(tool: Tool, values: list[str]) -> Call:
    """A call with arguments in schema order and numbers as JSON numbers."""
    arguments: dict[str, Any] = {}
    for param, value in zip(tool.params, values, strict=False):
        if param.type in ("integer", "number"):
            arguments[param.name] = float(value) if "." in value else int(value)
        else:
            arguments[param.name] = value == "true" if param.type == "boolean" else value
    return {"name": tool.name, "arguments": arguments}


def goal(tool: Tool) -> str:
    return f"{FAMILIES[tool.family].purpose} with {tool.name}"


def single_goal(world: World, family: str) -> str:
    """What one call is for, or would be.

    Among two-number functions the names are looked through one by one until one fits: "multiply two numbers: add no,
    multiply yes". Whether a name stands in the list is more than a model of this size sees at a glance.
    """
    tool = world.tool(family)
    if not world.families & set(OPERATIONS):
        return goal(tool) if tool else f"{FAMILIES[family].purpose}, but no tool does that"
    seen = []
    for each in world.tools:
        seen.append(f"{each.name} {'yes' if each is tool else 'no'}")
        if each is tool:
            break
    return f"{FAMILIES[family].purpose}: {', '.join(seen)}" + ("" if tool else ". No tool does that")


def values_for(s: Source, tool: Tool) -> list[str]:
    key = tool.family
    return operands(s, tool.params[0].type, key) if key in OPERATIONS else FAMILIES[key].make(s)


def asked(s: Source, tool: Tool, *, bare: bool = False) -> tuple[str, list[str]]:
    """A request for a tool: (text, the values of the call)."""
    key = tool.family
    if key == "calculate" and s.chance(SPOKEN):
        operation = s.choice(list(OPERATIONS))
        pair = operands(s, s.choice(["integer", "integer", "number"]), operation)
        text, (a, b) = request(s, operation, pair, bare=bare)
        return text, [f"{a} {OPERATIONS[operation][0]} {b}"]
    return request(s, key, values_for(s, tool), bare=bare)


# ---------------------------------------------------------------------------------------------- without any call


def no_tool_request(s: Source) -> str:
    text = branch(s, NO_TOOL)[1].format(
        city=city(s),
        name=name(s),
        words=phrase(s, 1, 3),
        language=s.choice(LANGUAGES),
        count=s.randint(1, 90),
        word=word(s),
    )
    if s.chance(0.3):
        text = s.choice(["please", "can you", "could you", "hey,", "now"]) + " " + text
    return (cap(text) if s.chance(0.5) else text) + s.choice(["", "", ".", "?"])


def no_tool(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode:
    messages = [user(no_tool_request(s)), assistant("No tool does that.", "Sorry, I have no tool for that.")]
    return Episode("no tool", messages)


def not_offered(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """A request for a tool of the product that this conversation does not offer."""
    have = world.families
    missing = [key for key in FAMILIES if key not in have]
    if "calculate" in have:  # it can do what the two-number functions do
        missing = [key for key in missing if key not in OPERATIONS]
    elif have & set(OPERATIONS):  # a two-number function may be meant by "calculate"
        missing = [key for key in missing if key != "calculate"]
        if s.chance(0.7):
            missing = [key for key in missing if key in OPERATIONS] or missing
    else:
        operations = [key for key in missing if key in OPERATIONS]
        missing = [key for key in missing if key not in OPERATIONS] + [s.choice(operations)]
    if not missing:
        return None
    key = s.choice(missing)
    text, _ = request(s, key, operands(s, "integer", key) if key in OPERATIONS else FAMILIES[key].make(s))
    family = FAMILIES[key]
    thought = f"I should {single_goal(world, key)}."
    answer = f"Sorry, I have no tool to {family.ability}."
    return Episode("not offered", [user(text), assistant(thought, answer)])


def _decorated(s: Source, text: str) -> str:
    return (cap(text) if s.chance(0.5) else text) + s.choice(["", "", "", "!", ".", "?"])


def small_talk(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode:
    kind = s.choice(SMALL_TALK)
    train = kind.simple if s.chance(0.35) else kind.train
    text = _decorated(s, expand(s, kind.held if s.unseen_phrasings else train))
    return Episode("small talk", [user(text), assistant(kind.thought, kind.answer)])


def tool_names(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode:
    text = _decorated(s, expand(s, TOOL_NAMES_HELD if s.unseen_phrasings else TOOL_NAMES_TRAIN))
    listed = ", ".join(t.name for t in world.tools)
    answer = f"I can use these tools: {listed}." if listed else "I have no tools, but I can chat."
    return Episode("tool names", [user(text), assistant("The user asks about my tools.", answer)])


# ------------------------------------------------------------------------------------------------------- one call


def single(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    if not world.known:
        return None
    follow = follow_up(s, world, last) if last and s.chance(0.45) else None
    tool, text, values = follow or _any_request(s, world)
    c, found = call(tool, values), result(s, tool.family, values)
    messages = [
        user(text),
        assistant(f"I should {single_goal(world, tool.family)}.", calls=(c,)),
        tool_says(present(s, tool.family, found, values, plain=world.plain)),
        assistant(HAVE, say(tool.family, values, found)),
    ]
    usable = (tool.family, found) if found and "\n" not in found else None
    return Episode("single", messages, ((c,),), (found,), usable)


def _any_request(s: Source, world: World) -> tuple[Tool, str, list[str]]:
    tool = s.choice(world.known)
    text, values = asked(s, tool)
    return tool, text, values


REPEATABLE = ("Read", "get_weather", "calculate", "recall", "Glob", "Bash")


def follow_up(s: Source, world: World, last: tuple[str, str] | None) -> tuple[Tool, str, list[str]] | None:
    """A request that rests on the one before: "and b.txt?", or "save it", where the last result becomes the content."""
    if not last:
        return None
    key, found = last
    before, keepers = world.tool(key), [t for t in world.known if t.family in ("Write", "remember")]
    if before and key in REPEATABLE and (not keepers or s.chance(0.6)):
        values = values_for(s, before)[:1]
        lead = expand(s, "[and|what about|how about|now|and what about|same for|and now|next:]")
        return before, f"{lead} {values[0]}{s.choice(['?', '?', '', ' please'])}", values
    if not keepers:
        return None
    tool = s.choice(keepers)
    it = s.choice(["it", "that", "this", "the result", "the answer"])
    if tool.family == "Write":
        values = [path(s), found]
        lead = expand(s, f"[please|now|ok, now|can you|] [write|save|put|store] {it} [to|in|into] [the file|]")
        return tool, f"{lead} {values[0]}", values
    lead = "[please|now|ok, now|can you|] [remember|save|note down|memorize|store|keep]"
    return tool, expand(s, f"{lead} {it} [for later|in a note|as a note|please|]"), [found]


def parallel(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """Two or three calls in one reply: different tools, or the same one with several values."""
    count = 3 if s.chance(0.04) else 2
    lists = [t for t in world.known if t.family in ("Read", "calculate")]
    if lists and s.chance(0.25):
        tools = [s.choice(lists)] * count
    elif len(world.known) >= count and s.chance(0.65):
        tools = s.sample(world.known, count)
    else:
        repeatable = [t for t in world.known if t.family not in ("current_time", "Write", "remember")]
        if not repeatable:
            return None
        tools = [s.choice(repeatable)] * count
    same = all(t is tools[0] for t in tools)
    text, values = _joint_request(s, tools, same)
    calls = tuple(call(t, v) for t, v in zip(tools, values, strict=True))
    bad = s.randrange(count) if s.chance(0.05) else -1
    shown, parts, carries = [], [], []
    for i, (tool, v) in enumerate(zip(tools, values, strict=True)):
        found = failure(s, tool.family, v) if i == bad else result(s, tool.family, v)
        carries.append(found)
        if i == bad:
            shown.append(tool_says(as_error(s, found, plain=world.plain)))
            parts.append(f"Sorry, that failed: {found}.")
        else:
            shown.append(tool_says(present(s, tool.family, found, v, plain=world.plain)))
            parts.append(say(tool.family, v, found))
    goals = f"{goal(tools[0])} {'twice' if count == 2 else 'three times'}" if same else " and ".join(map(goal, tools))
    messages = [user(text), assistant(f"I should {goals}.", calls=calls), *shown, assistant(HAVE, " ".join(parts))]
    return Episode("parallel", messages, (calls,), tuple(carries))


def _joint_request(s: Source, tools: list[Tool], same: bool) -> tuple[str, list[list[str]]]:
    """One request for several calls: one verb for all ("read a and b"), or whole requests joined."""
    key = tools[0].family or ""
    if same and key in ("Read", "get_weather", "calculate", "recall") and s.chance(0.65):
        firsts = [values_for(s, t)[0] for t in tools]
        joined = ", ".join(firsts[:-1]) + s.choice([" and ", " and ", " and also "]) + firsts[-1]
        return request(s, key, [joined])[0], [[v] for v in firsts]
    texts, values = [], []
    for i, tool in enumerate(tools):
        text, v = asked(s, tool, bare=i > 0)
        texts.append(text if tool.family == "Bash" else text.rstrip("?.!"))
        values.append(v)
    join = s.choice([" and ", " and ", ", and ", " and also ", "; also ", ", and also ", " and please "])
    text = join.join(texts) if len(texts) == 2 or s.chance(0.5) else ", ".join(texts[:-1]) + join + texts[-1]
    return text + (s.choice(["", "", "?", "."]) if tools[-1].family not in ("Bash", "Glob") else ""), values


# ------------------------------------------------------------------------------------------------------- failures

ERRORS = (
    *("file not found", "not found", "permission denied", "invalid argument", "unknown location", "access denied"),
    *("no such file or directory", "internal error", "timeout", "service unavailable", "bad request", "disk full"),
    "network error",
)
CODES = "not_found permission_denied invalid_argument internal timeout unavailable io_error bad_request".split()
REFUSED = (
    "denied by policy",
    "the user said no",
    "not allowed",
    "cancelled",
    "timed out after 30 s",
    "the tool crashed",
)
ABOUT_FILES = (
    *("no such file: {}", "no such file: {}", "no such file: {}", "permission denied: {}", "not a text file: {}"),
    *("{} is a directory", "outside the working directory: {}", "file too large: {}"),
)
ABOUT_FOLDERS = (
    "no such directory: {}",
    "invalid pattern: {}",
    "permission denied: {}",
    "outside the working directory: {}",
)
ABOUT_NUMBERS = (
    *("division by zero", "cannot evaluate: {}", "invalid expression: {}", "the number is too large"),
    "not a number: {}",
)


def failure(s: Source, key: str, values: list[str]) -> str:
    """The message of an error that names no correction."""
    if s.chance(0.5):
        if key == "Read":
            return s.choice(ABOUT_FILES).format(values[0])
        if key in ("Glob", "Grep", "Write"):
            return s.choice(ABOUT_FOLDERS).format(values[-1 if key == "Grep" else 0])
        if key in ARITHMETIC:
            return s.choice(ABOUT_NUMBERS).format(values[0])
    if s.chance(0.2):
        return s.choice([*REFUSED, "denied: " + phrase(s, 1, 3)])
    if s.chance(0.25):
        return phrase(s, 2, 4)
    return s.choice(ERRORS) + (f": {values[0]}" if values and s.chance(0.5) else "")


def as_error(s: Source, message: str, *, plain: bool) -> str:
    if plain or s.chance(0.8):
        return "Error: " + message
    shapes = [
        "error: " + message,
        dumps({"error": message}),
        dumps({"error": {"code": s.choice(CODES), "message": message}}),
    ]
    return s.choice(shapes)


def told(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """The tool fails and nothing can be done: the answer says so, with the message."""
    if not world.known:
        return None
    tool, text, values = _any_request(s, world)
    c, message = call(tool, values), failure(s, tool.family, values)
    messages = [
        user(text),
        assistant(f"I should {single_goal(world, tool.family)}.", calls=(c,)),
        tool_says(as_error(s, message, plain=world.plain)),
        assistant("The tool failed.", f"Sorry, that failed: {message}."),
    ]
    return Episode("error told", messages, ((c,),), (message,))


def near(s: Source, value: str) -> str:
    """A value that may have been meant: a letter, the ending or the folder differs."""
    before, dot, ending = value.rpartition(".")
    positions = [i for i, c in enumerate(value) if c.isalpha()]
    if s.chance(0.3) and dot and "/" not in ending:
        return f"{before}.{s.choice(EXTENSIONS)}"
    if not positions:
        return value + "s"
    if s.chance(0.25):
        return s.choice(["src/", "docs/", "data/", "notes/"]) + value.lstrip("./")
    i, c = s.choice(positions), s.choice("abcdefghijklmnopqrstuvwxyz")
    return value[:i] + s.choice([c + value[i], "", c]) + value[i + 1 :]


NO_SUCH = {"Read": "no such file", "Grep": "no such pattern", "Glob": "no such directory"}


def retry(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """The tool's error says what would have been right; the second call does that."""
    tools = [t for t in world.known if t.family in ("Read", "get_weather", "recall", "Grep", "Glob")]
    if not tools:
        return None
    reader = world.tool("Read")
    tool = reader if reader and s.chance(0.4) else s.choice(tools)
    text, values = asked(s, tool)
    right = list(values)
    while right[0] == values[0] or not right[0]:
        right[0] = near(s, values[0]) if s.chance(0.75) else values_for(s, tool)[0]
    if s.chance(0.6):
        hint = f"; did you mean {right[0]}?"
    else:
        lead = expand(s, "[did you mean|try|use|please use|the correct value is|maybe you mean]")
        hint = s.choice(["; ", ", ", ". "]) + f"{lead} {right[0]}" + ("?" if lead.startswith(("did", "maybe")) else "")
    about = f"{NO_SUCH.get(tool.family, 'no such name')}: {values[0]}"
    message = (about if s.chance(0.65) else s.choice([*ERRORS[:5], f"not found: {values[0]}"])) + hint
    first, second, found = call(tool, values), call(tool, right), result(s, tool.family, right)
    messages = [
        user(text),
        assistant(f"I should {single_goal(world, tool.family)}.", calls=(first,)),
        tool_says(as_error(s, message, plain=world.plain)),
        assistant("The error says how to fix the call.", calls=(second,)),
        tool_says(present(s, tool.family, found, right, plain=world.plain)),
        assistant(HAVE, say(tool.family, right, found)),
    ]
    return Episode("retry", messages, ((first,), (second,)), (found,))


# ------------------------------------------------------------------------------------------- tools from outside


def foreign(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """A request that spells the call of a tool the model has never seen."""
    tools = [t for t in world.tools if not t.family]
    if not tools:
        return None
    tool = s.choice(tools)
    kinds: dict[str, Callable[[], str]] = {
        "integer": lambda: str(s.randint(0, 999)),
        "number": lambda: number(s),
        "boolean": lambda: s.choice(["true", "false"]),
        "string": lambda: s.choice([word(s), path(s), city(s), phrase(s, 1, 4)]),
    }
    values = [kinds[p.type]() for p in tool.params]
    sign, quote = s.choice(["=", " = ", " set to ", ": "]), s.choice(["", "", '"'])
    pairs = zip(tool.params, values, strict=True)
    parts = [p.name + sign + (quote + v + quote if p.type == "string" else v) for p, v in pairs]
    verbs = "[[please|can you|] [use|call|run|invoke|try] [the tool|] {0}|[use|call|run|try] the {0} tool]"
    text = expand(s, verbs).format(tool.name)
    if parts:
        text += s.choice([" with ", " using ", ", ", " and set "]) + s.choice([", ", " and "]).join(parts)
    c, found = call(tool, values), phrase(s, 1, 5) if s.chance(0.7) else number(s)
    shown = found if s.chance(0.5) else dumps({s.choice(["result", "output", "value"]): found})
    messages = [
        user(cap(text) if s.chance(0.5) else text),
        assistant(f"I should call {tool.name}.", calls=(c,)),
        tool_says(shown),
        assistant(HAVE, f"The result is {found}."),
    ]
    return Episode("unseen tool", messages, ((c,),), (found,))
