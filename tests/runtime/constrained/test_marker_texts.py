"""Forced texts that hold a marker: written by ordinary tokens and read back, or said to be left to the check.

A vocabulary has all markers of its format as added tokens, which its tokenizer finds wherever they stand, as those of
models do.
"""

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from jsonschema import Draft202012Validator

from cognition import GenerationOptions, ToolSpec
from cognition.parsing import FORMATS, FormatSpec, Reply, parse_reply
from tests.runtime.constrained.vocabularies import Words, markers_of

pytest.importorskip("llguidance")
from runtime.constrained.guide import GuideFactory
from runtime.constrained.masks import TokenMasks
from runtime.constrained.replies import weakened_tools

CALLING = [spec for spec in FORMATS.values() if spec.calls is not None]
MARKERS = sorted({marker for spec in CALLING for marker in markers_of(spec)})
PLAIN = ("\n", "a\nb", " a ", "", "it's <b>", '"', "\\", "a\x07b", "\x7f", "&quot;", "12", "null", "{}", "/", "é")
LONG = 900
"""Tokens after which a reply is given up: it babbles in a text that nothing ends."""


def silent(spec: FormatSpec) -> FormatSpec:
    """Without reasoning, which random tokens would hardly ever end."""
    return spec if spec.reasoning is None or spec.prompted else evolve(spec, reasoning=None)


def schemas(text: str) -> dict[str, Any]:
    """Each way in which a schema may force a text."""
    nested = {"type": "object", "properties": {text: {"type": "boolean"}}, "required": [text]}
    return {
        "const": {"const": text},
        "enum": {"enum": [text, "other"]},
        "name": nested,
        "pattern": {"type": "string", "pattern": "^" + "".join(f"\\x{ord(sign):02x}" for sign in text) + "$"},
    }


def forced(spec: FormatSpec, tool: ToolSpec, words: Words, random: Random) -> Reply | None:
    """A forced call, sampled at random and read back; None for one that babbled on."""
    masks = TokenMasks(words, ())  # type: ignore[arg-type]  # all that is asked of a backend
    guide = GuideFactory(masks).guide(spec, (tool,), GenerationOptions(tool_choice=tool.name, parallel_calls=False))
    assert guide is not None
    said = bytearray()
    for _ in range(LONG):
        mask = guide.allowed_tokens()
        assert mask is not None, "the engine could not go on"
        allowed = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")).tolist()
        if 0 in allowed and (len(allowed) == 1 or random.random() < 0.5):
            return parse_reply(spec, said.decode(), tools=(tool,))
        closing = [token for token in allowed if token > 255 or chr(token) in "\"}]')><"]
        plain = [token for token in allowed if token and 32 <= token < 127]
        token = random.choice(
            closing if closing and random.random() < 0.4 else plain or [one for one in allowed if one]
        )
        assert guide.accept(token, words.piece(token))
        said += words.piece(token)
    return None


def check(spec: FormatSpec, text: str, seed: str) -> int:
    """Force a text in each way; how many calls were read back."""
    read_back = 0
    words = Words(special=markers_of(spec))
    for way, schema in schemas(text).items():
        if way == "pattern" and not text.isascii():
            continue
        tool = ToolSpec("f", "", {"type": "object", "properties": {"a": schema}, "required": ["a"]})
        reply = forced(spec, tool, words, Random(f"{seed} {way}"))
        if reply is None or weakened_tools((tool,), spec):
            continue  # it has ended in no error, whatever it was
        (call,) = reply.tool_calls
        Draft202012Validator(tool.parameters).validate(json.loads(call.arguments_json))
        assert reply.malformed == ()
        read_back += 1
    return read_back


@pytest.mark.behaviour("S13c")
@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_a_forced_text_that_holds_a_marker_ends_no_reply(spec: FormatSpec) -> None:
    """Any marker of the format itself, and some of others, as a value, a name and a pattern."""
    spec = silent(spec)
    random = Random(spec.name)
    own = markers_of(spec)
    texts = [f"x{marker}y" for marker in (*random.sample(own, min(5, len(own))), *random.sample(MARKERS, 3))]
    texts += random.sample(PLAIN, 4)
    assert sum(check(spec, text, spec.name) for text in texts) > 0


@pytest.mark.behaviour("S13c")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "minimax_m3", "gemma4", "lfm2"])
def test_every_marker_of_every_format_can_be_asked_for(name: str) -> None:
    """One format of each notation, with the markers of all."""
    spec = silent(FORMATS[name])
    assert (
        sum(check(spec, f"x{marker}y", marker) for marker in MARKERS[:: 3 if name != "hermes" else 1])
        > len(MARKERS) // 9
    )
