"""Checks that torch, llama.cpp and mlx-lm agree: token ids, first logits, greedy text, chat template.

    python -m training.check reference training/runs/second.pt    # torch, matrices rounded to F16 -> a reference file
    python -m training.check llama                                # the shipped GGUF against it
    python -m training.check mlx                                  # the shipped MLX directory against it

torch and the two backends need not be installed in one environment: only the reference file is shared.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from training.conversations import KINDS, conversation, render, texts_of_one_world, without_thoughts
from training.values import Source, phrase
from training.worlds import SHARES

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "runtime" / "small_model"
REFERENCE = HERE / "runs" / "reference.json"
GREEDY = 200  # tokens at most
AWKWARD = [
    "Don't we'll I'm you've it'd SHE'S",
    "  leading and trailing  ",
    "a\r\nb\n\n\nc \n d",
    "tab\tx\t\ty",
    "<tool_call>x</tool_call><think>\n\n</think>\n\n",
    "1234567890 3.14159 -42",
    "x" * 300,
    "naïve café – “quotes” …",
    "e\u0301 decomposed",
    "مرحبا שלום",
    "C:\\Users\\me\\file.txt",
    "scheme://a.b/c?d=e&f=g#h",
    "<|im_start|>user\nhi<|im_end|>",
    "",
    " ",
    "\n",
    "\n\n",
    " \n \n ",
    '{"a": [1, 2, {"b": null}]}',
    '", "description": "", "description": "a"}}, "required": ["',
    '": {"type": "string", "description": "x"}}, "required": ["a"]',
]


def strings(s: Source) -> list[str]:
    """Two hundred texts whose token ids must agree."""
    out = [opening + some[0] for opening, some in (texts_of_one_world(s, 1) for _ in range(100))]
    letters = "abcXYZ 0189\n\t\"{}[]:,./\\-_<>|'`é漢字😀Ωñ  "
    out += ["".join(s.choice(letters) for _ in range(s.randint(1, 80))) for _ in range(60)]
    out += AWKWARD
    return out + [phrase(s, 1, 9) + s.choice([".", "!", "?", ""]) for _ in range(200 - len(out))]


def prompts(s: Source, count: int) -> list[dict[str, Any]]:
    """Prompts of every kind and world, at any turn, one in three without thinking."""
    kinds, worlds = list(KINDS), [w for w in SHARES if w not in ("none", "odd")]
    out = []
    for i in range(count):
        kind = kinds[i % len(kinds)]
        s.unseen_values, s.unseen_phrasings = i % 2 == 0, i % 4 > 1
        c = conversation(s, kind=kind, where="odd" if kind == "unseen tool" else s.choice(worlds), requests=1)
        cut = s.choice([j for j, m in enumerate(c.messages) if m["role"] == "assistant"])
        thinking = i % 3 != 0
        history = c.messages[:cut] if thinking else without_thoughts(c.messages[:cut])
        text = render(c.tools, history, prompt=True, thinking=thinking)
        out.append({"tools": c.tools, "messages": history, "thinking": thinking, "prompt": text})
    return out


def template_agrees(cases: list[dict[str, Any]]) -> int:
    """How many prompts template.jinja gives to the letter as training.conversations.render does."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda x, **options: json.dumps(x, ensure_ascii=False)
    template = environment.from_string((HERE / "template.jinja").read_text(encoding="utf-8").rstrip("\n"))
    same = 0
    for case in cases:
        switch = {} if case["thinking"] else {"enable_thinking": False}
        text = template.render(tools=case["tools"], messages=case["messages"], add_generation_prompt=True, **switch)
        same += text == case["prompt"]
    return same


def reference(checkpoint: Path, file: Path, count: int) -> None:
    import torch

    from training import tokenizer
    from training.model import Config, Model

    torch.set_num_threads(1)
    loaded = torch.load(checkpoint)
    model, tk = Model(Config(**loaded["config"])), tokenizer.load()
    model.load_state_dict({k: v.half().float() if v.ndim > 1 else v for k, v in loaded["weights"].items()})
    s = Source.seeded(99)
    texts, cases, end = strings(s), prompts(s, count), tokenizer.id_of(tk, "<|im_end|>")
    start, made = time.time(), 0
    for case in cases:
        ids = tk.encode(case["prompt"], add_special_tokens=False).ids
        out = model.greedy(ids, GREEDY, end)
        with torch.no_grad():
            logits = model.logits(model.hidden(torch.tensor([ids]))[:, -1])[0]
        made += len(out)
        case |= {"ids": ids, "out": out, "text": tk.decode(out, skip_special_tokens=False)}
        case["logits"] = [round(x, 4) for x in logits.tolist()]
    print(f"torch, one thread: {made / (time.time() - start):.0f} tokens/s")
    print(f"template.jinja gives the prompts of the recipe: {template_agrees(cases)} of {len(cases)}")
    tokens = [[text, tk.encode(text, add_special_tokens=False).ids] for text in texts]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tokens": tokens, "prompts": cases}), encoding="utf-8")
    print(f"wrote {file}")


def llama(model_file: Path, file: Path) -> None:
    import llama_cpp
    import numpy as np

    expected = json.loads(file.read_text(encoding="utf-8"))
    start = time.time()
    m = llama_cpp.Llama(str(model_file), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
    print(f"loaded in {1e3 * (time.time() - start):.0f} ms")
    same = sum(m.tokenize(text.encode(), add_bos=False, special=True) == ids for text, ids in expected["tokens"])
    print(f"token ids equal: {same} of {len(expected['tokens'])}")
    vocab = llama_cpp.llama_model_get_vocab(m._model.model)

    def logits() -> Any:
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(m._ctx.ctx), shape=(m.n_vocab(),))

    same, worst, read, wrote, reading, writing = 0, 0.0, 0, 0, 0.0, 0.0
    for case in expected["prompts"]:
        m.reset()
        start = time.time()
        m.eval(case["ids"])
        reading, read = reading + time.time() - start, read + len(case["ids"])
        worst = max(worst, float(abs(logits() - np.array(case["logits"])).max()))
        out: list[int] = []
        start = time.time()
        while len(out) < GREEDY and not llama_cpp.llama_vocab_is_eog(vocab, token := int(logits().argmax())):
            out.append(token)
            m.eval([token])
        writing, wrote = writing + time.time() - start, wrote + len(out)
        same += out == case["out"]
        if out != case["out"]:
            print("   differs:", repr(m.detokenize(out, special=True).decode("utf-8", "replace"))[:200])
            print("   torch:  ", repr(case["text"])[:200])
    print(f"greedy text equal to torch's: {same} of {len(expected['prompts'])}; largest logit difference {worst:.3f}")
    print(f"{read / reading:.0f} tokens/s in, {wrote / writing:.0f} out, one thread")


def mlx(folder: Path, file: Path) -> None:
    import mlx.core as mx
    from mlx_lm import load, stream_generate
    from mlx_lm.sample_utils import make_sampler

    expected = json.loads(file.read_text(encoding="utf-8"))
    start = time.time()
    m, tk = load(str(folder))
    print(f"loaded in {1e3 * (time.time() - start):.0f} ms on {mx.default_device()}")
    print(f"mlx-lm finds tool calls: {tk.has_tool_calling}, thinking: {tk.has_thinking}")
    same = sum(tk.encode(text, add_special_tokens=False) == ids for text, ids in expected["tokens"])
    print(f"token ids equal: {same} of {len(expected['tokens'])}")
    greedy, same, alike, worst = make_sampler(temp=0.0), 0, 0, 0.0
    speeds = []
    for case in expected["prompts"]:
        switch = {} if case["thinking"] else {"enable_thinking": False}
        text = tk.apply_chat_template(
            case["messages"], tools=case["tools"], add_generation_prompt=True, tokenize=False, **switch
        )
        alike += text == case["prompt"]
        first = m(mx.array([case["ids"]]))[0, -1].astype(mx.float32)
        worst = max(worst, float(mx.abs(first - mx.array(case["logits"])).max()))
        parts = list(stream_generate(m, tk, case["ids"], max_tokens=GREEDY, sampler=greedy))
        out = "".join(p.text for p in parts)
        speeds.append((parts[-1].prompt_tps, parts[-1].generation_tps))
        same += out == case["text"]
        if out != case["text"]:
            print("   differs:", repr(out)[:200])
            print("   torch:  ", repr(case["text"])[:200])
    n = len(expected["prompts"])
    print(f"prompts of its template equal: {alike} of {n}")
    print(f"greedy text equal to torch's: {same} of {n}; largest logit difference {worst:.3f}")
    print(f"{sum(a for a, _ in speeds) / n:.0f} tokens/s in, {sum(b for _, b in speeds) / n:.0f} out")


def main() -> None:
    p = argparse.ArgumentParser(
        prog="python -m training.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("what", choices=["reference", "llama", "mlx"])
    p.add_argument("model", type=Path, nargs="?", help="a checkpoint, a GGUF file or an MLX directory")
    p.add_argument("--file", type=Path, default=REFERENCE, help="the reference file")
    p.add_argument("--prompts", type=int, default=70)
    a = p.parse_args()
    if a.what == "reference":
        if not a.model:
            p.error("reference needs the checkpoint that the weights were exported from")
        reference(a.model, a.file, a.prompts)
    elif a.what == "llama":
        llama(a.model or SHIPPED / "small-tools-qwen3-q8_0.gguf", a.file)
    else:
        mlx(a.model or SHIPPED / "mlx", a.file)


if __name__ == "__main__":
    main()
