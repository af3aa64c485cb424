"""Constrains the sampling of one reply by its grammar: from the start of a call, or from the first token.

::

    free ── a token begins a call ──▶ held ── the call is complete ──▶ free, or over
    held ── the reply is complete ──▶ over: only tokens that end the reply
    held ── a key would be duplicated ──▶ held: another token is sampled in its place
    held ── the engine fails ──▶ free: the parser and the check of the arguments judge the rest

Outside of calls no mask is computed, so a reply without calls has no cost.
"""

from __future__ import annotations

import codecs
import json
import logging
import re
from collections.abc import Callable

from attrs import define, field, frozen

from cognition import GenerationOptions, ToolSpec
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.parsing import FormatSpec, advance, start
from cognition.parsing.rope import join_pieces
from cognition.parsing.state import InCall, InSection
from cognition.parsing.typed_values import ParameterTypes, types_of
from runtime.constrained._object_keys import KeyWatch
from runtime.constrained.masks import Matcher, TokenMasks
from runtime.constrained.nodes import Anything, Schema
from runtime.constrained.replies import Calls, Entry, call_grammar, reply_grammar
from runtime.constrained.schema import read_checked, read_schema
from runtime.constrained.tools import Tool, loosely, read_tools
from runtime.errors import ConstraintError


@frozen
class CallStart:
    """A call or a section of calls has begun."""

    entry: Entry
    text: str
    """The text of the call or section so far, from the token that began it."""


class CallDetector:
    """Detects the start of a call in freely sampled text, by the parser itself, so that both agree.

    It reads a reply token by token. First ``look`` at a token, then ``take`` it, or look at another instead.
    """

    def __init__(self, spec: FormatSpec) -> None:
        assert spec.calls is not None  # else there is nothing to watch for
        self._spec = spec
        self._calls = spec.calls
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = False
        """Whether the current call was reported."""
        self._taken = self._looked = (start(spec), self._decoder.getstate())
        """The states of parser and decoder: ``_taken`` after the last token taken, ``_looked`` after the last token
        looked at.
        """
        name = re.escape(self._calls.fields.name)
        bare_object = rf'\{{\s*(?:"(?:type|id)"\s*:\s*"[^"]*"\s*,\s*)?"{name}"\s*:'
        bare_list = r"\[\s*[^\s\[\](){},:=]+\s*\("
        self._head = re.compile(bare_list if self._calls.shape == "pythonic" else bare_object)
        """Matches the beginning of a call without a start marker."""

    def look(self, piece: bytes) -> CallStart | None:
        """Return the call or section that this token would begin, if any."""
        before, decoded = self._taken
        self._decoder.setstate(decoded)
        text = self._decoder.decode(piece)
        after, _ = advance(self._spec, before, text)
        self._looked = (after, self._decoder.getstate())
        phase = after.phase
        fresh = not self._inside or after.calls > before.calls
        if not isinstance(phase, InSection | InCall) or not fresh:
            return None
        section = self._calls.section_start
        came = before.phase.held + text
        if section and section in came:
            return CallStart("section", came.rpartition(section)[2])
        if isinstance(phase, InSection):
            return None
        written = join_pieces(phase.raw) + phase.held
        if phase.tentative and not self._head.match(written):
            return None  # a brace, and nothing that tells a call from any other JSON
        marker = came[: len(came) - len(written)]
        named = self._calls.name_start in self._calls.more_starts and marker.endswith(self._calls.name_start)
        return CallStart("named" if named else "call", written)

    def take(self, *, known: bool) -> None:
        """Take the token looked at last. ``known``: a grammar constrains the call that the token began or is in."""
        self._taken = self._looked
        inside = isinstance(self._taken[0].phase, InSection | InCall)
        self._inside = inside and (known or self._inside)


KEPT_SETS = 16
"""The number of tool sets whose grammars are cached: one for each agent that shares the model."""

SUBJECT = "the schema of the answer"

LOG = logging.getLogger("cogstep")

MOST_REFUSALS = 64
"""The most tokens refused in a row because no call can continue from them: half a marker, half a wrong word."""


@define(eq=False)
class Guide:
    """Decides which tokens may come next in a reply.

    Args:
        masks: the token masks of the vocabulary.
        grammar: returns the matcher for the call or section that begins; without a watch, for the reply.
        watch: detects calls; None for a reply that is constrained from its first token.
        keys: follows the keys of the constrained text.
        parallel: whether the reply may continue after a call.
        checked: whether the result is checked later, so that the constraint may be dropped if the engine fails.
    """

    _masks: TokenMasks
    _grammar: Callable[[Entry], Matcher]
    _watch: CallDetector | None
    _keys: KeyWatch
    _parallel: bool
    _checked: bool = True
    _any_key: bool = field(default=False, init=False)
    """Whether the grammar allows only duplicate keys here."""
    _matcher: Matcher | None = field(init=False)
    _over: bool = field(default=False, init=False)
    _let_go: bool = field(default=False, init=False)
    """Whether the engine failed on a reply constrained from its first token."""
    _refused: set[int] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._matcher = self._grammar("section") if self._watch is None else None

    def allowed_tokens(self) -> bytes | None:
        """Return one bit per token, lowest first; None if every token is allowed.

        Raises:
            ConstraintError: the grammar is too complex to continue.
        """
        if self._over:
            mask = self._masks.ends
        elif self._matcher is not None:
            try:
                mask = self._matcher.allowed_tokens()
            except ConstraintError as error:
                if not self._checked:
                    raise
                LOG.warning("%s; the rest of it is not held to anything", error)
                self._matcher, self._let_go = None, self._watch is None
                return None
        elif self._refused:
            mask = self._masks.every
        else:
            return None
        if not self._refused:
            return mask
        marks = bytearray(mask)
        for token in self._refused:
            marks[token // 8] &= ~(1 << token % 8)
        if self._matcher is not None and not any(marks):
            self._any_key = True
            return mask
        return bytes(marks)

    def accept(self, token: int, piece: bytes) -> bool:
        """Take a token that does not end the reply. Return False if another must be sampled instead.

        Raises:
            ConstraintError: the token was not allowed.
        """
        if self._over:
            raise ConstraintError("a token came after the end of the reply")
        if self._matcher is not None:
            if not (self._keys.look(piece) or self._any_key):
                self._refused.add(token)
                self._refused |= self._masks.beginning_with(self._keys.closer())
                return False
            self._matcher.accept(token)
            self._keys.take()
            self._refused.clear()
            self._any_key = False
            if self._watch is not None:
                self._watch.look(piece)
                self._watch.take(known=True)
            self._finish()
            return True
        if self._let_go:
            return True
        assert self._watch is not None  # without one there is a matcher, or the reply is over
        found = self._watch.look(piece)
        if found is not None:
            matcher = self._grammar(found.entry)
            if not found.text or matcher.accepts(self._masks.tokens(found.text)):
                self._matcher = matcher
                self._keys.begin(found.text)
            elif len(self._refused) < MOST_REFUSALS:
                self._refused.add(token)
                return False
            else:
                told = "a call that begins with %r is not constrained: no grammar goes on from there"
                LOG.warning(told, found.text[:200])
        self._watch.take(known=found is not None)
        self._refused.clear()
        self._finish()
        return True

    def _finish(self) -> None:
        if self._matcher is not None and self._matcher.is_finished:
            self._matcher = None
            self._over = self._watch is None or not self._parallel


@define
class _Grammars:
    """The grammars of one tool set, each written once."""

    tools: tuple[ToolSpec, ...]
    read: tuple[Tool, ...]
    types: ParameterTypes
    texts: dict[tuple[object, ...], str] = field(factory=dict)


class GuideFactory:
    """Creates the guides of a model's replies. Several may be in use at a time, each with its own tools."""

    def __init__(self, masks: TokenMasks) -> None:
        self._masks = masks
        self._kept: list[_Grammars] = []
        """Most recently used first."""

    def guide(self, spec: FormatSpec, tools: tuple[ToolSpec, ...], options: GenerationOptions) -> Guide | None:
        """Return the guide for a reply; None if the reply needs no constraint.

        Args:
            spec: the format, after the prompt.
            tools: the tools offered to the model.
            options: the request's options.

        Raises:
            ConstraintError: this format can't satisfy the options.
            SchemaError: a tool's parameters are not a schema of an object, or the answer's schema can't be enforced.
        """
        choice, answer, grammars = options.tool_choice, options.response_format, self._grammars(tools)
        read = grammars.read
        if choice not in ("auto", "none", "required"):
            read = tuple(tool for tool in read if tool.spec.name == choice)
            if not read:
                raise ConstraintError(f"tool_choice is {choice!r}, and no tool of this name is offered")
        forced, known = choice not in ("auto", "none"), spec.calls is not None
        if forced and not (known and read):
            why = "no tools are offered" if not read else "no grammar is known for calls in this model's format"
            raise ConstraintError(f"tool_choice is {choice!r}, and {why}")
        if forced:
            return self._whole_reply_guide(grammars, spec, read, options, "must")
        callable_ = choice == "auto" and bool(read) and known
        bare = spec.calls is not None and not (spec.calls.start or spec.calls.section_start)
        if answer and callable_ and bare and not options.response_checked:
            raise ConstraintError(
                "response_format beside tools: in this model's format a call can't be told from an answer in JSON; "
                "offer no tools, or set tool_choice='none'"
            )
        # A check tells whether a reply without markers was an answer.
        if (answer and not (callable_ and bare)) or (choice == "none" and known):
            return self._whole_reply_guide(grammars, spec, read, options, "may" if callable_ else "no")
        if not callable_:
            return None
        parallel = options.parallel_calls
        return Guide(
            self._masks,
            lambda entry: self._begun_matcher(grammars, spec, entry, parallel),
            CallDetector(spec),
            KeyWatch(spec, grammars.types, whole=False),
            parallel,
        )

    def _grammars(self, tools: tuple[ToolSpec, ...]) -> _Grammars:
        found = next((one for one in self._kept if one.tools is tools or one.tools == tools), None)
        if found is None:
            found = _Grammars(tools, read_tools(tools), types_of(tools))
        self._kept = [found, *(one for one in self._kept if one is not found)][:KEPT_SETS]
        return found

    def _whole_reply_guide(
        self, grammars: _Grammars, spec: FormatSpec, tools: tuple[Tool, ...], options: GenerationOptions, calls: Calls
    ) -> Guide:
        parallel, answer = options.parallel_calls, "" if calls == "must" else options.response_format
        checked = bool(answer) and options.response_checked
        key: tuple[object, ...] = (spec, calls, parallel, answer, options.tool_choice, checked)
        if key not in grammars.texts:
            schema = json.loads(answer) if answer else None

            def write(tools: tuple[Tool, ...]) -> str:
                return reply_grammar(spec, tools, self._masks.vocabulary, calls=calls, parallel=parallel, answer=read)

            read = None if schema is None else (read_checked if checked else read_schema)(schema, SUBJECT)
            if checked and not self._compiles(write(())):
                LOG.warning("the schema of the answer is too much for a grammar; any value is let through to its check")
                read = Schema(Anything(), {})
            grammars.texts[key] = self._compilable_grammar(tools, write)
        text = grammars.texts[key]
        keys = KeyWatch(spec, grammars.types, whole=True, may_call=calls != "no", may_answer=bool(answer))
        return Guide(self._masks, lambda _: self._masks.matcher(text), None, keys, parallel, checked or not answer)

    def _begun_matcher(self, grammars: _Grammars, spec: FormatSpec, entry: Entry, parallel: bool) -> Matcher:
        key: tuple[object, ...] = (spec, entry, parallel)
        if key not in grammars.texts:

            def write(tools: tuple[Tool, ...]) -> str:
                return call_grammar(spec, tools, self._masks.vocabulary, entry, parallel=parallel, others=True)

            grammars.texts[key] = self._compilable_grammar(grammars.read, write)
        return self._masks.matcher(grammars.texts[key])

    def _compilable_grammar(self, tools: tuple[Tool, ...], written: Callable[[tuple[Tool, ...]], str]) -> str:
        """Return the grammar of these tools. Calls of tools that are too complex for the engine need only be an object.

        Raises:
            ConstraintError: even that does not compile.
        """
        text = written(tools)
        if self._compiles(text):
            return text
        loosened = tuple(tool if self._compiles(written((tool,))) else loosely(tool) for tool in tools)
        if loosened == tools or not self._compiles(written(loosened)):  # each for itself is not too much
            loosened = tuple(map(loosely, tools))
        names = ", ".join(tool.spec.name for tool, kept in zip(loosened, tools, strict=True) if tool is not kept)
        LOG.warning(
            "the schemas of these tools are too much for a grammar, and their calls are not held to them: %s",
            shown_name(names, LONGEST_LINE),
        )
        return written(loosened)

    def _compiles(self, text: str) -> bool:
        try:
            self._masks.matcher(text)
        except ConstraintError:
            return False
        return True
