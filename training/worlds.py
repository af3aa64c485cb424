"""What stands before the first request of a conversation: the tools, their schemas, a system prompt.

The kinds of world and their shares are the narrowing that made so small a model useful: nearly half of all
conversations offer the command line's five tools, to the letter and in their order, without a system prompt.
"""

import json
from dataclasses import dataclass
from typing import Any

from training.families import CLI, FAMILIES, LATER, OPERATIONS, PRODUCT, Param, Tool, canonical, varied
from training.grammar import expand
from training.values import Source, cap, name, phrase, word

SHARES = {
    "cli": 0.46,  # the command line's tools, exactly
    "later": 0.04,  # the same, followed by some of Write, Bash, remember, recall
    "numbers": 0.32,  # one to four two-number functions, now and then beside other tools
    "mixed": 0.1,  # one to six of the product's tools in any order
    "odd": 0.04,  # other names, other descriptions, tools from outside
    "none": 0.04,  # no tool at all
}
SYSTEM_SHARE = {"cli": 0.05, "later": 0.05}  # of conversations with a system prompt; elsewhere 0.4

# Pairs of tools of which one can feed the other.
FEEDING = [
    ("Read", "Write"),
    ("Glob", "Read"),
    ("calculate", "remember"),
    ("get_weather", "Write"),
    ("Read", "remember"),
    ("current_time", "Write"),
    ("recall", "Write"),
    ("Bash", "Write"),
]

# Plausible tools from outside the model's world: name, description, parameters.
FOREIGN = [
    ("send_email", "Send an email", "to body"),
    ("set_timer", "Set a timer in minutes", "minutes:integer"),
    ("translate", "Translate text into a language", "text language"),
    ("play_music", "Play a song", "song"),
    ("book_flight", "Book a flight", "origin destination date"),
    ("web_search", "Search the web", "query"),
    ("create_ticket", "Create an issue ticket", "title body"),
    ("list_users", "List all users", ""),
    ("turn_on_light", "Turn on a light", "room"),
    ("get_stock_price", "Get the price of a stock", "symbol"),
    ("convert_currency", "Convert money", "amount:number source target"),
    ("delete_user", "Delete a user account", "user_id:integer"),
    ("send_message", "Send a text message", "contact text"),
    ("get_news", "Get the latest news", ""),
    ("take_photo", "Take a photo with the camera", "camera"),
]

SYSTEM = (
    "You are a [helpful|friendly|careful|] assistant.",
    "You are a [helpful|useful|smart] AI assistant.",
    "You are a small demo model.",
    "[Answer|Reply] [briefly|in one sentence|shortly].",
    "You are an agent. Use [tools|the tools] when needed.",
    "Be [concise|polite|helpful|brief] [and polite|].",
    "You are a [local|] assistant running on this computer.",
    "You are a helpful assistant. [Use the tools when they help|Call a tool if you need one|Answer in one sentence].",
    "You help [the user|people] with [files|notes|small tasks|their work].",
    "You are {name}, a helpful assistant.",
)


@dataclass(frozen=True)
class World:
    kind: str
    tools: tuple[Tool, ...]
    schemas: tuple[dict[str, Any], ...]
    system: str
    plain: bool  # results to the letter as the command line's tools print them

    def tool(self, family: str) -> Tool | None:
        return next((t for t in self.tools if t.family == family), None)

    @property
    def known(self) -> tuple[Tool, ...]:
        return tuple(t for t in self.tools if t.family)

    @property
    def families(self) -> frozenset[str]:
        return frozenset(t.family for t in self.tools if t.family)


def schema(tool: Tool, describe: str = "", extra: bool = False, empty_required: bool = False) -> dict[str, Any]:
    """The JSON schema of a tool in the package's key order; `describe` is a form for parameter descriptions."""
    properties: dict[str, Any] = {}
    for p in tool.params:
        properties[p.name] = {"type": p.type}
        if describe:
            properties[p.name]["description"] = describe.format(p.name.replace("_", " "))
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    required = [p.name for p in tool.params if p.required]
    if required or empty_required:
        parameters["required"] = required
    if extra:
        parameters["additionalProperties"] = False
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def foreign_tool(s: Source) -> Tool:
    """A tool from outside: a plausible one, or one with arbitrary names."""
    if not s.unseen_values and s.chance(0.5):
        title, description, params = s.choice(FOREIGN)
        typed = [(*p.split(":"), "string")[:2] for p in params.split()]
        return Tool("", title, description, tuple(Param(p, t) for p, t in typed))
    names: list[str] = []
    count = s.choice([0, 1, 1, 2, 2, 3])
    while len(names) < count:
        if (new := "_".join(word(s) for _ in range(s.choice([1, 1, 2])))) not in names:
            names.append(new)
    types = ["string", "string", "number", "integer", "boolean"]
    title = "_".join(word(s) for _ in range(s.choice([1, 2, 2, 3])))
    return Tool("", title, cap(phrase(s, 2, 5)), tuple(Param(p, s.choice(types)) for p in names))


def system_prompt(s: Source) -> str:
    def one() -> str:
        text = expand(s, s.choice(SYSTEM)).replace("{name}", name(s))
        return text.replace("a assistant", "an assistant")

    x = s.random()
    return one() if x < 0.8 else f"{one()} {one()}" if x < 0.92 else cap(phrase(s, 4, 50)) + "."


def world(s: Source, kind: str | None = None, *, feeding: bool = False) -> World:
    """A world of the given kind, or of any; `feeding` makes sure that one of its tools can feed another."""
    kind = kind or s.choices(list(SHARES), list(SHARES.values()))[0]
    tools = _tools(s, kind, feeding)
    form: dict[str, Any] = {}
    if kind not in ("cli", "later") and s.chance(0.3):
        form = {
            "describe": s.choice(["The {}", "{}", "The {} to use"]) if s.chance(0.4) else "",
            "empty_required": s.chance(0.5),
            "extra": s.chance(0.2),
        }
    schemas = [schema(t, **form) for t in tools]
    if kind == "odd" and s.chance(0.3):
        schemas = json.loads(json.dumps(schemas, sort_keys=True))
    system = system_prompt(s) if s.chance(SYSTEM_SHARE.get(kind, 0.4)) else ""
    return World(kind, tuple(tools), tuple(schemas), system, plain=kind in ("cli", "later"))


def _tools(s: Source, kind: str, feeding: bool) -> list[Tool]:
    match kind:
        case "cli":
            return [canonical(key) for key in CLI]
        case "later":
            return [canonical(key) for key in (*CLI, *s.sample(LATER, s.choice([1, 2, 3, 4, 4, 4])))]
        case "none":
            return []
        case "numbers":
            keys = s.sample(list(OPERATIONS), s.choice([1, 1, 1, 1, 2, 2, 3, 4]))
            if s.chance(0.3):
                keys += s.sample([k for k in PRODUCT if k != "calculate"], s.choice([1, 1, 2]))
        case "mixed":
            keys = s.sample(PRODUCT, s.choice([1, 1, 2, 2, 3, 3, 4, 5, 6]))
        case "odd":
            keys = s.sample(list(FAMILIES), s.choice([1, 2, 2, 3, 3, 4, 5]))
            if "calculate" in keys:
                keys = [k for k in keys if k not in OPERATIONS]
        case _:
            raise ValueError(f"no such world: {kind!r}; there are {', '.join(SHARES)}")
    if kind != "numbers" and (feeding or s.chance(0.35)):
        pair = s.choice(FEEDING)
        keys = [k for k in keys if k not in pair] + list(pair)
    s.shuffle(keys)
    number_type = s.choice(["integer", "integer", "integer", "number"])
    if kind == "odd":
        tools = [varied(s, key, number_type, alias=0.4) for key in keys]
        tools += [foreign_tool(s) for _ in range(s.choice([0, 1, 1, 2]))]
        s.shuffle(tools)
        return list({t.name: t for t in tools}.values())  # no name twice
    plain = s.chance(0.6)
    return [canonical(key, number_type) if plain or s.chance(0.3) else varied(s, key, number_type) for key in keys]
