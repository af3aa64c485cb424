"""Holds the sampling of one reply to its grammar: free until a call begins, or from the first token on.

::

    free ── a token begins a call ──▶ held ── the call is complete ──▶ free, or over
    held ── the reply is complete ──▶ over: only what ends the reply

Outside of calls nothing is masked, so that a reply without calls costs nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from cognition import GenerationOptions, ToolSpec
from cognition.parsing import FormatSpec
from runtime.constrained.calls import Tool, read_tools, writable
from runtime.constrained.masks import Matcher, TokenMasks
from runtime.constrained.replies import Entry, begun, reply
from runtime.constrained.watch import CallWatch
from runtime.errors import ConstraintError

LOG = logging.getLogger("cogstep")

MOST_REFUSALS = 64
"""Tokens in a row that would begin a call in a way that no call can go on from: half a marker and half a wrong word."""


class Guide:
    """What may come next in a reply.

    Args:
        masks: of the vocabulary.
        grammar: gives the matcher of what begins; without a watch, that of the reply.
        watch: looks for calls; None for a reply that is held from its first token on.
        parallel: whether the reply may go on after a call.
    """

    def __init__(
        self, masks: TokenMasks, grammar: Callable[[Entry], Matcher], watch: CallWatch | None, *, parallel: bool
    ) -> None:
        self._masks = masks
        self._grammar = grammar
        self._watch = watch
        self._parallel = parallel
        self._matcher = grammar("section") if watch is None else None
        self._over = False
        self._refused: set[int] = set()

    def allowed(self) -> bytes | None:
        """One bit a token, lowest first; None where every token may come.

        Raises:
            ConstraintError: the grammar is too complex to go on.
        """
        if self._over:
            mask = self._masks.ends
        elif self._matcher is not None:
            mask = self._matcher.allowed()
        elif self._refused:
            mask = self._masks.every
        else:
            return None
        if not self._refused:
            return mask
        marks = bytearray(mask)
        for token in self._refused:
            marks[token // 8] &= ~(1 << token % 8)
        return bytes(marks)

    def accept(self, token: int, piece: bytes) -> bool:
        """Go on by a token that ends no reply; False where another one has to be sampled in its place.

        Raises:
            ConstraintError: the token was not allowed.
        """
        if self._over:
            raise ConstraintError("a token came after the end of the reply")
        if self._matcher is not None:
            self._matcher.accept(token)
            if self._watch is not None:
                self._watch.look(piece)
                self._watch.take(known=True)
            self._finish()
            return True
        assert self._watch is not None  # without one there is a matcher, or the reply is over
        found = self._watch.look(piece)
        if found is not None:
            matcher = self._grammar(found.entry)
            if not found.text or matcher.accepts(self._masks.tokens(found.text)):
                self._matcher = matcher
            elif len(self._refused) < MOST_REFUSALS:
                self._refused.add(token)
                return False
            else:
                LOG.warning("a call that begins with %r is not constrained: no grammar goes on from there", found.text)
        self._watch.take(known=found is not None)
        self._refused.clear()
        if self._matcher is not None:
            self._finish()
        return True

    def _finish(self) -> None:
        if self._matcher is not None and self._matcher.finished:
            self._matcher = None
            self._over = self._watch is None or not self._parallel


class Guides:
    """Makes the guides of a model's replies; the grammars of the tools last asked for are kept."""

    def __init__(self, masks: TokenMasks) -> None:
        self._masks = masks
        self._tools: tuple[ToolSpec, ...] = ()
        self._read: tuple[Tool, ...] = ()
        self._texts: dict[tuple[object, ...], str] = {}

    def guide(self, spec: FormatSpec, tools: tuple[ToolSpec, ...], options: GenerationOptions) -> Guide | None:
        """The guide for a reply, None where nothing has to be held to anything.

        Args:
            spec: the format, as the prompt left it.
            tools: that the model was told of.
            options: of the request.

        Raises:
            ConstraintError: what is asked for can't be had in this format.
            SchemaError: the parameters of a tool, or the schema of the answer, can't be held to.
        """
        choice, parallel = options.tool_choice, options.parallel_calls
        if tools is not self._tools:
            self._read, self._tools, self._texts = read_tools(tools), tools, {}
        read = self._read
        if choice not in ("auto", "none", "required"):
            read = tuple(tool for tool in read if tool.spec.name == choice)
            if not read:
                raise ConstraintError(f"tool_choice is {choice!r}, and no tool of this name is offered")
        forced, known = choice not in ("auto", "none"), writable(spec)
        if forced and not (known and read):
            why = "no tools are offered" if not read else "no grammar is known for calls in this model's format"
            raise ConstraintError(f"tool_choice is {choice!r}, and {why}")
        if forced:
            return self._whole(spec, read, calls="must", parallel=parallel, answer="", choice=choice)
        callable_ = choice == "auto" and bool(read) and known
        if options.response_format or (choice == "none" and spec.calls is not None):
            bare = spec.calls is not None and not (spec.calls.start or spec.calls.section_start)
            if options.response_format and callable_ and bare:
                raise ConstraintError(
                    "response_format beside tools: in this model's format a call can't be told from an answer in JSON; "
                    "offer no tools, or set tool_choice='none'"
                )
            answer = options.response_format
            return self._whole(spec, read, calls="may" if callable_ else "no", parallel=parallel, answer=answer)
        if not callable_:
            return None
        return Guide(
            self._masks,
            lambda entry: self._begun(spec, entry, parallel),
            CallWatch(spec),
            parallel=parallel,
        )

    def _whole(
        self, spec: FormatSpec, tools: tuple[Tool, ...], *, calls: str, parallel: bool, answer: str, choice: str = ""
    ) -> Guide:
        key: tuple[object, ...] = (spec, calls, parallel, answer, choice)
        if key not in self._texts:
            self._texts[key] = reply(
                spec,
                tools,
                self._masks.vocabulary,
                calls=calls,  # type: ignore[arg-type]  # one of the three
                parallel=parallel,
                answer=json.loads(answer) if answer else None,
            )
        text = self._texts[key]
        return Guide(self._masks, lambda _: self._masks.matcher(text), None, parallel=parallel)

    def _begun(self, spec: FormatSpec, entry: Entry, parallel: bool) -> Matcher:
        key: tuple[object, ...] = (spec, entry, parallel)
        if key not in self._texts:
            self._texts[key] = begun(spec, self._read, self._masks.vocabulary, entry, parallel=parallel)
        return self._masks.matcher(self._texts[key])
