"""The tokenizer: a byte-level BPE of 1408 tokens made for copying, which is the model's main skill.

* A value must be cut into the same tokens wherever it stands. So merges are learnt inside runs of letters only, digits
  stay single, and no merge starts with a space.
* JSON punctuation gets a few merges of its own.
* The constant parts of the template's tool block are one token each (`BLOCKS`). They save some 250 tokens a prompt; a
  schema of another shape falls back to ordinary tokens, and a share of the training texts is encoded without them.

tokenizer.json belongs to the weights: a new one needs a training from the start.

    python -m training.tokenizer --out training/runs/tokenizer.json      # makes a new one and reports its economy
"""

import argparse
import collections
import json
import re
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training import phrasings, small_talk, values
from training.conversations import HEAD, TAIL, texts_of_one_world
from training.families import FAMILIES
from training.grammar import BEFORE
from training.values import Source
from training.worlds import SYSTEM

FILE = Path(__file__).with_name("tokenizer.json")
# What llama.cpp knows as "qwen2"; the exporter names it so.
PRE_TOKENIZER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # hidden in detokenised text
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]  # visible
BLOCKS = [  # no one's end is another's start
    HEAD,
    TAIL,
    '{"type": "function", "function": {"name": "',
    '", "description": "',
    '", "parameters": {"type": "object", "properties": {',
    *('": {"type": "' + t for t in ("string", "number", "integer", "boolean")),
    '"}}, "required": ["',
]
PUNCTUATION = set('ĠĊ"{}[]:,<>')  # Ġ and Ċ stand for the space and the newline


def load(*, blocks: bool = True) -> Tokenizer:
    """The shipped tokenizer; without `blocks` the parts of the tool block are cut into ordinary tokens."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    if not blocks:
        content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] not in BLOCKS]
    return Tokenizer.from_str(json.dumps(content))


def id_of(tk: Tokenizer, token: str) -> int:
    found = tk.token_to_id(token)
    if found is None:
        raise KeyError(f"the tokenizer has no token {token!r}")
    return int(found)


def byte_letters() -> list[str]:
    """The 256 letters that stand for the bytes in a byte-level BPE, in GPT-2's order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def word_counts(documents: list[str]) -> collections.Counter[str]:
    """How often each word occurs, with the word lists and grammars lifted so that their words get tokens."""
    counts = collections.Counter(w for d in documents for w in re.findall("[A-Za-z]+", d))
    lists = (values.WORDS, values.NAMES, values.CITIES, values.LANGUAGES, values.EXTENSIONS, values.FOLDERS)
    tool_names = [n for f in FAMILIES.values() for n in re.findall("[A-Za-z]+", f.names)]
    for w in [x for words in (*lists, values.VERBS, values.SMALL_WORDS, tool_names) for x in words]:
        counts[w] += 60
    grammars = [text for p in (*phrasings.TOOLS.values(), phrasings.NO_TOOL) for _, text in p.train + p.held]
    grammars += [t.train + t.held for t in small_talk.SMALL_TALK]
    grammars += [small_talk.TOOL_NAMES_TRAIN, small_talk.TOOL_NAMES_HELD, *SYSTEM, *BEFORE["i"]]
    for w in set(re.findall("[A-Za-z]+", " ".join(grammars))):
        counts[w] += 40
    return counts


def build(texts: list[str], letter_merges: int = 980, multiple: int = 64) -> Tokenizer:
    """A new tokenizer for these texts, its vocabulary filled up to a multiple of 64."""
    constant = re.compile("|".join(map(re.escape, BLOCKS + SPECIAL + TAGS)))
    documents = [constant.sub("\n", t) for t in texts]
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    letters = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    size = len(letters) + letter_merges
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=letters, show_progress=False)
    counts = word_counts(documents)
    learner.train_from_iterator([" ".join([w] * min(n, 400)) for w, n in counts.items() if n > 1], trainer)
    merges = [tuple(m) for m in json.loads(learner.to_str())["model"]["merges"]]
    vocab = byte_letters() + [a + b for a, b in merges]
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZER), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    pieces = collections.Counter(piece for d in documents for piece, _ in split.pre_tokenize_str(d))
    for piece, count in pieces.most_common():
        if count > 60 and len(piece) > 1 and set(piece) <= PUNCTUATION:
            for i in range(1, len(piece)):
                if (piece[:i], piece[i]) not in merges:
                    merges.append((piece[:i], piece[i]))
                if piece[: i + 1] not in vocab:
                    vocab.append(piece[: i + 1])
    made = Tokenizer(models.BPE(vocab={x: i for i, x in enumerate(vocab)}, merges=merges))
    made.pre_tokenizer, made.decoder = split, decoders.ByteLevel()
    made.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in SPECIAL])
    made.add_tokens([AddedToken(x, normalized=False, special=False) for x in TAGS + BLOCKS])
    unused = -(len(vocab) + len(SPECIAL) + len(TAGS) + len(BLOCKS)) % multiple
    made.add_tokens([AddedToken(f"<|unused_{i}|>", normalized=False, special=True) for i in range(unused)])
    return made


def main() -> None:
    p = argparse.ArgumentParser(
        prog="python -m training.tokenizer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seed", type=int, default=7)
    a = p.parse_args()
    s = Source.seeded(a.seed)
    texts = [opening + text for _ in range(1500) for opening, some in [texts_of_one_world(s, 4)] for text in some]
    made = build(texts)
    a.out.parent.mkdir(parents=True, exist_ok=True)
    made.save(str(a.out), pretty=False)
    sizes = sorted(len(e.ids) for e in made.encode_batch(texts))
    mean, middle, high = sum(sizes) / len(sizes), sizes[len(sizes) // 2], sizes[int(len(sizes) * 0.95)]
    print(f"{made.get_vocab_size()} tokens; a text has {mean:.0f} on average, median {middle}, 95 % under {high}")
    wrong = [t for t in texts[:400] if made.decode(made.encode(t).ids, skip_special_tokens=False) != t]
    print(f"{len(wrong)} of 400 texts are not decoded to themselves")


if __name__ == "__main__":
    main()
