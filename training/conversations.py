"""Conversations: a world and one to three episodes, and the text that the chat template makes of them.

Everything is generated from the word lists and grammars of this package; no other text is used.

    python -m training.conversations        # prints some training texts
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.episodes import (
    Episode,
    Maker,
    Message,
    foreign,
    no_tool,
    not_offered,
    parallel,
    retry,
    single,
    small_talk,
    told,
    tool_names,
)
from training.families import dumps
from training.sequences import sequence
from training.values import Source
from training.worlds import World, world

# Each kind of episode: its maker and its share of the training.
KINDS: dict[str, tuple[Maker, float]] = {
    "single": (single, 23),
    "parallel": (parallel, 24),
    "sequence": (sequence, 24),
    "error told": (told, 4),
    "retry": (retry, 6),
    "not offered": (not_offered, 15),
    "no tool": (no_tool, 7),
    "small talk": (small_talk, 5),
    "tool names": (tool_names, 4),
    "unseen tool": (foreign, 4),  # only where a tool from outside is offered
}
EPISODES = [1] * 16 + [2, 2, 2, 3]  # how many requests a conversation has
EASY = ["single", "single", "single", "no tool", "small talk"]  # the start of a training
HARD = 0.4  # share of worlds whose values are drawn as those of the scores on unseen values: none comes twice
THINKING = 0.8  # share of conversations with thinking
KEEP = (
    0.3  # of those: the share that keeps the reasoning of earlier turns, which the template drops; more to learn from
)


@dataclass(frozen=True)
class Conversation:
    world: World
    episodes: tuple[Episode, ...]

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return list(self.world.schemas) or None

    @property
    def opening(self) -> list[Message]:
        return [{"role": "system", "content": self.world.system}] if self.world.system else []

    @property
    def messages(self) -> list[Message]:
        return self.opening + [m for episode in self.episodes for m in episode.messages]


def episode(s: Source, w: World, kind: str | None = None, last: tuple[str, str] | None = None) -> Episode | None:
    """An episode of the given kind, None where the world has no tools for it; or of any kind that it has tools for."""
    if kind:
        return KINDS[kind][0](s, w, last)
    makers: list[Maker] = [maker for maker, _ in KINDS.values()]
    shares = [share for _, share in KINDS.values()]
    while True:
        if made := s.choices(makers, shares)[0](s, w, last):
            return made


def conversation(
    s: Source,
    w: World | None = None,
    *,
    kind: str | None = None,
    where: str | None = None,
    requests: int | None = None,
) -> Conversation:
    """A conversation in the given world, or in a new one of the kind `where`; `kind` fixes what its episodes are."""
    while True:
        here = w or world(s, where, feeding=kind == "sequence")
        episodes: list[Episode] = []
        for _ in range(requests or s.choice(EPISODES)):
            made = episode(s, here, kind, episodes[-1].last if episodes else None)
            if made is None:
                break
            episodes.append(made)
        else:
            return Conversation(here, tuple(episodes))


HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within"
    ' <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)
NO_THOUGHT = "<think>\n\n</think>\n\n"


def render(
    tools: Sequence[dict[str, Any]] | None,
    messages: Sequence[Message],
    *,
    prompt: bool = False,
    thinking: bool = True,
    keep: bool = False,
) -> str:
    """The text of template.jinja, some hundred times as fast (training.check compares the two).

    `prompt` ends with the start of the assistant's turn, which without `thinking` holds an empty thought. `keep` also
    keeps the reasoning of earlier turns.
    """
    out: list[str] = []
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else None
    if tools:
        block = HEAD + "".join("\n" + dumps(t) for t in tools) + TAIL
        out.append(f"<|im_start|>system\n{system + chr(10) * 2 if system is not None else ''}{block}<|im_end|>\n")
    elif system is not None:
        out.append(f"<|im_start|>system\n{system}<|im_end|>\n")
    newest = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for i, m in enumerate(messages):
        if m["role"] == "user":
            out.append(f"<|im_start|>user\n{m['content']}<|im_end|>\n")
        elif m["role"] == "assistant":
            out.append(f"<|im_start|>assistant\n{_turn(m, thought=keep or i > newest)}<|im_end|>\n")
        elif m["role"] == "tool":
            first = i == 0 or messages[i - 1]["role"] != "tool"
            end = i == len(messages) - 1 or messages[i + 1]["role"] != "tool"
            out.append("<|im_start|>user" if first else "")
            out.append(f"\n<tool_response>\n{m['content']}\n</tool_response>" + ("<|im_end|>\n" if end else ""))
    if prompt:
        out.append("<|im_start|>assistant\n" + ("" if thinking else NO_THOUGHT))
    return "".join(out)


def _turn(m: Message, *, thought: bool) -> str:
    reasoning = m.get("reasoning_content")
    text = f"<think>\n{reasoning}\n</think>\n\n" if thought and reasoning else ""
    calls = [c["function"] for c in m.get("tool_calls") or []]
    blocks = [
        f'<tool_call>\n{{"name": "{c["name"]}", "arguments": {dumps(c["arguments"])}}}\n</tool_call>' for c in calls
    ]
    return text + "\n".join(([m["content"]] if m["content"] or not blocks else []) + blocks)


def without_thoughts(messages: Sequence[Message]) -> list[Message]:
    return [{k: v for k, v in m.items() if k != "reasoning_content"} for m in messages]


def training_text(s: Source, c: Conversation) -> str:
    """The text of a conversation with thinking; or without: then it ends with some turn after an empty thought.

    Any turn, the first too: were it never the first, an empty thought there would come to mean a refusal.
    """
    if s.chance(THINKING):
        return render(c.tools, c.messages, keep=s.chance(KEEP))
    bare = without_thoughts(c.messages)
    cut = s.choice([i for i, m in enumerate(bare) if m["role"] == "assistant"])
    turn = _turn(bare[cut], thought=False)
    return f"{render(c.tools, bare[:cut], prompt=True, thinking=False)}{turn}<|im_end|>\n"


def texts_of_one_world(s: Source, count: int, *, easy: bool = False) -> tuple[str, list[str]]:
    """(opening, continuations): the tool block and system prompt of one world, and independent conversations after it.

    Training shows the opening once and hides the conversations from each other (training.train), so that short ones do
    not spend most of their tokens on the tool block. `easy` texts have one request that needs at most one call.
    """
    s.unseen_values = s.chance(HARD)
    w = world(s)
    opening = render(list(w.schemas) or None, Conversation(w, ()).opening)
    if easy:
        kinds = EASY if w.known else EASY[-2:]
        talks = [conversation(s, w, kind=s.choice(kinds), requests=1) for _ in range(count)]
    else:
        talks = [conversation(s, w) for _ in range(count)]
    texts = [training_text(s, talk) for talk in talks]
    return opening, [text.removeprefix(opening) for text in texts]


if __name__ == "__main__":
    source = Source.seeded(1)
    for _ in range(12):
        start, rest = texts_of_one_world(source, 5)
        print("=" * 120, start, *rest, sep="\n")
