"""From a branch of a grammar to a request as people type it: choices, values, politeness, punctuation."""

import re

from training.phrasings import TOOLS, Phrasings
from training.values import Source, cap

BEFORE = {
    "i": (
        *("please", "can you", "could you", "would you", "can you please", "could you please", "I want you to", "now"),
        *("I need you to", "I'd like you to", "ok, now", "hey,", "hi,", "hello,", "next,", "ok,", "will you", "kindly"),
        *("go ahead and", "let's", "thanks,", "quickly"),
    ),
    "q": ("hey,", "hi,", "hello,", "ok,", "please tell me,", "so", "quick question:", "thanks,", "now", "question:"),
    "s": ("hey,", "hi,", "ok,", "please:", "now", "thanks,"),
}
AFTER = ("please", "for me", "thanks", "thank you", "now", "for me please", "if you can", "right now")
ENDS_WITH_VALUE = ("{0}", "{1}")
FREE_TEXT = ("remember", "Write", "Bash")  # what follows their value would belong to it


def expand(s: Source, branch: str) -> str:
    """One random choice for each bracket, innermost first: '[a|b|] c' -> 'a c', 'b c' or 'c'."""
    while "[" in branch:
        branch = re.sub(r"\[([^\[\]]*)\]", lambda m: s.choice(m[1].split("|")), branch)
    return re.sub(" +", " ", branch).strip()


def branch(s: Source, phrasings: Phrasings) -> tuple[str, str]:
    """(kind, expanded branch) of the training half, or of the held-out half for a source of unseen phrasings."""
    kind, text = s.choice(phrasings.held if s.unseen_phrasings else phrasings.train)
    return kind, expand(s, text)


def polite(s: Source, key: str, kind: str, text: str) -> str:
    """Politeness before or after, a capital, an end."""
    if s.chance(0.3):
        before = s.choice(BEFORE[kind])
        text = text + " please" if before == "please" and s.chance(0.3) else f"{before} {text}"
    elif kind == "i" and s.chance(0.15) and not (key in FREE_TEXT and text.endswith(ENDS_WITH_VALUE)):
        text = f"{text} {s.choice(AFTER)}"
    if s.chance(0.55) and not text.startswith("{"):
        text = cap(text)
    question = kind == "q" or text.lower().startswith(("can you", "could you", "would you", "will you"))
    if question:
        return text + ("?" if s.chance(0.75) else "")
    if s.chance(0.25) and not text.endswith(ENDS_WITH_VALUE):
        return text + "."
    if s.chance(0.1) and key not in ("Bash", "calculate", "current_time", "Glob") and not text.endswith("="):
        return text + s.choice(".!")
    return text


def request(s: Source, key: str, values: list[str], *, bare: bool = False) -> tuple[str, list[str]]:
    """One request for a tool: (text, values).

    The branch decides which values it mentions: Glob's folder branches turn the folder into a pattern, Grep's branches
    without a path drop it. `bare` leaves politeness out, for requests inside a longer one.
    """
    kind, text = branch(s, TOOLS[key])
    if key == "Glob":
        values = [values[1] + "/*", values[1]] if "{1}" in text else values[:1]
    if key == "Grep" and "{1}" not in text:
        values = values[:1]
    if not bare:
        text = polite(s, key, kind, text)
    text = text.format(*values)
    return text, values[:1] if key == "Glob" else values
