"""Requests of two steps: the second call needs the first one's result, or is asked for with "then"."""

import re
from collections.abc import Callable

from training.episodes import HAVE, Episode, asked, assistant, call, goal, tool_says, user
from training.families import ARITHMETIC, OPERATIONS, Tool, ended, present, result, say
from training.grammar import expand
from training.values import Source, integer, number, path
from training.worlds import World

IT = ("it", "that", "the result", "the answer")

# What follows the first request. The held-out tails share no wording with the trained ones.
THEN = "[then|and then|, then|and|. Then|, and|, and then|. After that,|; then|;|. Now|, afterwards]"
CHAIN = {
    "add": f"{THEN} [add {{n}} to {{it}}|add {{n}}|plus {{n}}|add another {{n}}|raise {{it}} by {{n}}|"
    "put {n} more to it]",
    "subtract": f"{THEN} [subtract {{n}} from {{it}}|subtract {{n}}|take away {{n}}|take {{n}} away from {{it}}|"
    "minus {n}|reduce {it} by {n}|remove {n}]",
    "multiply": f"{THEN} [multiply {{it}} by {{n}}|multiply by {{n}}|times {{n}}|multiply that with {{n}}|"
    "make it {n} times as much]",
    "divide": f"{THEN} [divide {{it}} by {{n}}|divide by {{n}}|share {{it}} by {{n}}|"
    "take one of {n} parts of {it}]",
}
CHAIN_HELD = {
    "add": "[and put {n} on top of {it}|; increase {it} by {n}]",
    "subtract": "[and lower {it} by {n}|; take {n} off {it}]",
    "multiply": "[and scale {it} by {n}|; take {it} {n} times]",
    "divide": "[and split {it} by {n}|; cut {it} into {n} parts]",
}
FIRST = (
    "[and|and then|, then|then|. Then|, and|; then|. After that,|. Now]"
    " [read|open|show me|print|read me|show|cat|load|fetch|view|take a look at|look into|give me|read out|"
    "tell me what is in|show me what is in|print out]"
    " [the first|the first|the first|the top] [one|file|match|of them|result|hit|name|entry|in the list|]"
)
FIRST_HELD = "[and look at|; open|, and then display] the first [one|match]"
COPY = (
    "[copy|copy the file|copy the text of|copy the contents of|copy everything in|put the text of|save a copy of|"
    "save the text of|write the contents of|clone|transfer] {0} [to|into|in] [the file|] {1}"
)
COPY_HELD = "[duplicate {0} as {1}|make {1} a copy of {0}|{1} should be a copy of {0}]"
TO_FILE = (
    "[and|and then|, then|, and then|. Then|, and|. Now|. After that,]"
    " [write|save|put|store|record|place|log|write down|copy|append] {it}"
    " [to|in|into] [the file|a file called|a file|a file named|the new file|]"
)
TO_FILE_HELD = "[; store|and keep|and drop] {it} [in|into] [the file|a file called|]"
TO_NOTES = (
    "[and|and then|then|, then|. Then|, and|. After that,]"
    " [remember|memorize|note down|save|store|keep|write down|learn]"
    " {it} [as a note|in a note|for later|in memory|in your memory|as a memo|in my notes]"
)
TO_NOTES_HELD = "[and retain|; keep|and then note] {it} [for later|in mind]"


def sequence(s: Source, world: World, last: tuple[str, str] | None = None) -> Episode | None:
    """A request of two steps, of one of the four shapes that the world's tools allow."""
    have = world.families
    shapes: dict[Callable[[Source, World], Episode | None], int] = {
        chain: (1 if len(have) > 2 else 2) if have & set(ARITHMETIC) else 0,
        first_match: 2 if {"Glob", "Read"} <= have else 0,
        keep: 3 if have & {"Write", "remember"} and have & set(SOURCES) else 0,
        in_turn: 1 if len(have) > 1 else 0,
    }
    if not any(shapes.values()):
        return None
    return s.choices(list(shapes), list(shapes.values()))[0](s, world)


def _tail(s: Source, train: str, held: str, **words: str) -> str:
    return expand(s, held if s.unseen_phrasings else train).format(**words)


def _join(first: str, tail: str) -> str:
    return re.sub(r" +([;,.]) ", r"\1 ", f"{first.rstrip('?.!')} {tail}")


def _two_steps(
    s: Source,
    world: World,
    text: str,
    first: tuple[Tool, list[str], str],
    second: tuple[Tool, list[str], str],
    answer: str,
    carries: tuple[str, ...],
) -> Episode:
    """The episode of two steps, each (tool, values, result)."""
    (tool1, values1, found1), (tool2, values2, found2) = first, second
    call1, call2 = call(tool1, values1), call(tool2, values2)
    # Weather as JSON would have to be put together again to be copied: it stays as it is.
    shown1 = found1 if tool1.family == "get_weather" else present(s, tool1.family, found1, values1, plain=world.plain)
    messages = [
        user(text),
        assistant(f"First I should {goal(tool1)}, then {goal(tool2)}.", calls=(call1,)),
        tool_says(shown1),
        assistant(f"Now I should {goal(tool2)}.", calls=(call2,)),
        tool_says(present(s, tool2.family, found2, values2, plain=world.plain)),
        assistant(HAVE, answer),
    ]
    return Episode("sequence", messages, ((call1,), (call2,)), carries)


def chain(s: Source, world: World) -> Episode | None:
    """Arithmetic with the result: "What is 3 * 4? Then add 5 to it"."""
    tools = [t for t in world.known if t.family in ARITHMETIC]
    tool1 = s.choice(tools)
    if tool1.family == "calculate":
        tool2 = tool1
    else:
        tool2 = s.choice([t for t in tools if t.family != "calculate"]) if s.chance(0.5) else tool1
    text, values1 = asked(s, tool1, bare=s.chance(0.7))
    if len(values1[0]) > 16:
        return None  # long expressions are for single requests
    found1 = result(s, tool1.family, values1)
    whole = tool2.params[0].type == "integer"
    if (whole and "." in found1) or len(found1) > 10:
        return None
    n = number(s) if s.chance(0.3) and not whole else str(abs(integer(s)))
    n = "3" if float(n) == 0 else n
    operation = s.choice(list(OPERATIONS)) if tool2.family == "calculate" else tool2.family
    text = _join(text, _tail(s, CHAIN[operation], CHAIN_HELD[operation], n=n, it=s.choice(IT)))
    values2 = [f"{found1} {OPERATIONS[operation][0]} {n}"] if tool2.family == "calculate" else [found1, n]
    found2 = result(s, tool2.family, values2)
    answer = say(tool2.family, values2, found2)
    return _two_steps(s, world, text, (tool1, values1, found1), (tool2, values2, found2), answer, (found2,))


def first_match(s: Source, world: World) -> Episode | None:
    """Find files and read the first: "Find all *.md files and read the first one"."""
    tool1, tool2 = world.tool("Glob"), world.tool("Read")
    if not tool1 or not tool2:
        return None
    text, values1 = asked(s, tool1, bare=s.chance(0.7))
    text = _join(text, _tail(s, FIRST, FIRST_HELD))
    if s.chance(0.08):  # nothing found, so nothing to read
        c = call(tool1, values1)
        messages = [
            user(text),
            assistant(f"First I should {goal(tool1)}, then {goal(tool2)}.", calls=(c,)),
            tool_says(present(s, "Glob", "", values1, plain=world.plain)),
            assistant(HAVE, say("Glob", values1, "")),
        ]
        return Episode("sequence", messages, ((c,),))
    rows: list[str] = []
    while not rows:
        rows = [row for row in result(s, "Glob", values1).split("\n") if row]
    values2 = [rows[0]]
    found2 = result(s, "Read", values2)
    answer = say("Read", values2, found2)
    return _two_steps(s, world, text, (tool1, values1, "\n".join(rows)), (tool2, values2, found2), answer, (found2,))


SOURCES = ("Read", "recall", "get_weather", "current_time", "calculate", "Bash", *OPERATIONS)


def keep(s: Source, world: World) -> Episode | None:
    """The result goes into a file or a note: "Read a.txt and save it to b.txt"."""
    tool1 = s.choice([t for t in world.known if t.family in SOURCES])
    tool2 = s.choice([t for t in world.known if t.family in ("Write", "remember")])
    text, values1 = asked(s, tool1, bare=s.chance(0.7))
    found1 = ""
    while not found1:
        found1 = result(s, tool1.family, values1).split("\n")[0]
    it = s.choice(["it", "that", "the result", "the text" if tool1.family in ("Read", "recall") else "the answer"])
    if tool2.family == "remember":
        values2, text = [found1], _join(text, _tail(s, TO_NOTES, TO_NOTES_HELD, it=it))
        answer = ended(f"I will remember: {found1}")
    else:
        values2 = [path(s), found1]
        if tool1.family == "Read" and s.chance(0.5):
            text = expand(s, COPY_HELD if s.unseen_phrasings else COPY).format(values1[0], values2[0])
        else:
            text = f"{_join(text, _tail(s, TO_FILE, TO_FILE_HELD, it=it))} {values2[0]}"
        answer = f"I wrote {found1} to {values2[0]}."
    found2 = result(s, tool2.family, values2)
    return _two_steps(s, world, text, (tool1, values1, found1), (tool2, values2, found2), answer, (found1,))


def in_turn(s: Source, world: World) -> Episode | None:
    """Two requests in a given order: "... and after that ..."."""
    tool1, tool2 = s.sample(world.known, 2)
    text1, values1 = asked(s, tool1, bare=s.chance(0.7))
    text2, values2 = asked(s, tool2, bare=True)
    link = s.choice(
        [", then ", ". Then ", " and then ", ", and after that ", "; after that ", ", and then ", "; then "]
    )
    text = s.choice(["", "", "first "]) + text1.rstrip("?.!") + link + text2
    found1, found2 = result(s, tool1.family, values1), result(s, tool2.family, values2)
    answer = say(tool1.family, values1, found1) + " " + say(tool2.family, values2, found2)
    steps = (tool1, values1, found1), (tool2, values2, found2)
    return _two_steps(s, world, text, *steps, answer, (found1, found2))
