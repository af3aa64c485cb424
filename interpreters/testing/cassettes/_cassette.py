"""A cassette: the model's side of a test, recorded once with a real model and replayed without it from then on.

    def test_multiplication(cassette):
        with Agent(cassette.model(load_model), tools=[multiply]) as agent:
            assert agent.run("What is 17 * 23?").calls[0].content == "391"

A replay never calls ``load_model``: a request that was not recorded is an error that shows the nearest recorded one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from attrs import evolve

from cognition import ConfigError, ModelRequest
from cognition.parsing import Output, TextDelta
from cognition.values.content import MEDIA_TYPES
from interpreters.loop.program.program import is_closed_with
from interpreters.recording.redaction import Redaction
from interpreters.recording.redactor import Redactor
from interpreters.testing.cassettes._requests import Scrub, difference, nearest, request_data, request_digest
from interpreters.testing.cassettes.tape import (
    CassetteError,
    Exchange,
    Tape,
    data_of_reply,
    read_tape,
    reply_of_data,
    write_tape,
)
from interpreters.testing.fakes.models import ReplyingModel
from interpreters.testing.fakes.scripts import Reply
from runtime.protocol.model import Done, Generation, ModelInfo, Runtime

Mode = Literal["replay", "record", "new", "off"]
"""How a cassette is used.

- ``replay``: play the recorded replies; never call a model.
- ``record``: call the real model and write its replies, replacing the old recording.
- ``new``: replay an existing cassette, record a missing one.
- ``off``: call the real model and write nothing.
"""


USUAL = Redaction()
"""The default redaction of a cassette."""


class CassetteMissError(CassetteError):
    """A model got a request that is not on the cassette. The message shows the nearest recorded request, if any.

    Attributes:
        request: the request, as data.
        nearest: the position of the nearest recorded request, from 0. None if the model has no recorded requests, or if
            this request was recorded but all its replies are used.
    """

    lines = True

    def __init__(self, message: str, *, path: Path, request: dict[str, Any], nearest: int | None) -> None:
        super().__init__(message, path=path)
        self.request = request
        self.nearest = nearest


class Cassette:
    """The recorded replies of one or more models, in a file.

    Args:
        path: the JSON file; see ``tape`` for its format.
        mode: see ``Mode``.
        scrub: replacements in requests, applied before they are compared and written: pairs of a regular expression and
            a replacement text, for dates and paths in prompts. Replies are not scrubbed.
        redact: the secrets to keep out of the file, in requests and replies; by default all texts that look like a
            secret. The file contains placeholders. In a replay, a named secret, or a secret of the request, appears in
            the reply with its current value. None writes everything unchanged.

    As a context manager, it writes the file at the end of the block, unless an exception leaves the block.

    Raises:
        CassetteError: the file is to be replayed, and can't be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "replay",
        *,
        scrub: Iterable[Scrub] = (),
        redact: Redaction | None = USUAL,
    ) -> None:
        self.path: Path = Path(path)
        self._file = self.path.absolute()  # where it is written at the end, wherever the program stands by then
        self.scrub: list[Scrub] = list(scrub)
        self.redact = redact
        self.mode: Literal["replay", "record", "off"] = (
            ("replay" if self._file.exists() else "record") if mode == "new" else mode
        )
        """The mode; ``new`` is resolved to another mode."""
        self._tape: Tape | None = None
        self._lock = threading.Lock()

    @property
    def tape(self) -> Tape:
        """The contents. They are read at the first access, so that a test without model calls needs no file.

        Raises:
            CassetteError: the cassette to replay is missing or can't be read.
        """
        with self._lock:
            if self._tape is None:
                self._tape = read_tape(self._file) if self.mode == "replay" else Tape()
            return self._tape

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests and replies, in order."""
        return self.tape.exchanges

    @property
    def unused(self) -> list[int]:
        """Positions of the replies that a replay has not used, from 0; empty if no model was created from it."""
        if self.mode != "replay" or self._tape is None:
            return []
        return [position for position, exchange in enumerate(self._tape.exchanges) if not exchange.used]

    def model(self, load: Callable[[], Runtime], name: str = "") -> Runtime:
        """Return the model for an agent: a replay, or ``load()`` with recording. Each replay starts from the beginning.

        Args:
            load: returns the real model; called only if the mode needs it. The caller closes the model, as with any
                agent; if no other reference exists, it is freed with the agent.
            name: distinguishes the models of a test that has several.

        Raises:
            CassetteError: the cassette is to be replayed and can't be read.
            ConfigError: ``load`` is a model instead of a function that returns one.
        """
        if not callable(load):
            raise ConfigError(f"cassette.model needs a function that loads the model, not {type(load).__name__}")
        if self.mode == "off":
            return load()
        if self.mode == "record":
            model = load()
            self.tape.models[name] = _info_data(model.describe())
            return RecordedModel(self, model, name)
        return PlayedModel(self, name)

    def hide(self, request: ModelRequest) -> tuple[dict[str, Any], Redactor]:
        """Return a request in the form for comparison and writing, and the redactor that reveals the secrets in its
        reply.

        Secrets are numbered in the order of their occurrence in the request, so that a changed key still matches the
        recorded request.
        """
        names = frozenset(tool.name for tool in request.tools)
        redactor = Redactor(self.redact, keep=names, literal=False)
        shown, _ = redactor.hide(request)
        return request_data(shown, self.scrub), redactor

    def save(self) -> bool:
        """Write the recorded exchanges; return whether there were any.

        Raises:
            CassetteError: the file can't be written.
        """
        if self.mode != "record" or self._tape is None or not self._tape.exchanges:
            return False
        write_tape(self._file, self._tape)
        return True

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.save()


def _info_data(info: ModelInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "backend": info.backend,
        "context_tokens": info.context_tokens,
        "features": list(info.features),
        **({"media": list(info.media)} if info.media else {}),
    }


class RecordedModel:
    """A real model whose replies are recorded. See ``runtime.Runtime``."""

    def __init__(self, cassette: Cassette, model: Runtime, name: str) -> None:
        self._cassette = cassette
        self._model = model
        self._name = name

    @property
    def ends_with_agent(self) -> bool:
        """As the recorded model, such as a script that must be used up."""
        return is_closed_with(self._model, None)

    def submit(self, request: ModelRequest) -> Generation:
        generation = self._model.submit(request)
        data, redactor = self._cassette.hide(request)
        exchange = Exchange(request_digest(data), data, {}, self._name)
        return RecordedReply(generation, exchange, self._cassette.exchanges.append, redactor)

    def count_tokens(self, request: ModelRequest) -> int:
        return self._model.count_tokens(request)

    def describe(self) -> ModelInfo:
        return self._model.describe()

    def close(self) -> None:
        self._model.close()


class RecordedReply:
    """A reply that is recorded at its end. See ``runtime.Generation``."""

    def __init__(
        self, generation: Generation, exchange: Exchange, keep: Callable[[Exchange], None], redactor: Redactor
    ) -> None:
        self._generation = generation
        self._exchange = exchange
        self._keep = keep
        self._redactor = redactor
        self._pieces = 0

    def __iter__(self) -> RecordedReply:
        return self

    def __next__(self) -> Output | Done:
        output = next(self._generation)
        if isinstance(output, TextDelta):
            self._pieces += 1
        elif isinstance(output, Done):
            hidden, _ = self._redactor.hide(output)
            self._exchange.reply = data_of_reply(hidden, self._pieces)
            self._keep(self._exchange)
        return output

    def cancel(self) -> None:
        self._generation.cancel()


class PlayedModel(ReplyingModel):
    """Replays the recorded reply of each request. Equal requests get their replies in order."""

    def __init__(self, cassette: Cassette, name: str) -> None:
        tape = cassette.tape
        info = tape.models.get(name, {})
        super().__init__(context_tokens=int(info.get("context_tokens", 4096)), name=str(info.get("name", "cassette")))
        features = tuple(str(feature) for feature in info.get("features", ()))
        media = tuple(kind for kind in MEDIA_TYPES if kind in info.get("media", ()))
        self._info = evolve(self._info, backend="cassette", path=str(cassette.path), features=features, media=media)
        self._cassette = cassette
        self._left = [exchange for exchange in tape.exchanges if exchange.model == name]
        self._mine = list(self._left)
        self._taking = threading.Lock()

    def _whole_reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        asked, redactor = self._cassette.hide(request)
        recorded, pieces = reply_of_data(self._take(asked).reply)
        done = redactor.reveal(recorded)
        return Reply(
            done.text,
            done.calls,
            reasoning=done.reasoning,
            malformed=done.malformed,
            failure=done.failure,
            usage=done.usage,
            finish_reason=done.finish_reason,
            chunk=-(-len(done.text) // pieces),
        )

    def _take(self, asked: dict[str, Any]) -> Exchange:
        digest = request_digest(asked)
        with self._taking:
            for position, exchange in enumerate(self._left):
                if exchange.digest == digest:
                    exchange.used = True
                    return self._left.pop(position)
        raise self._miss(asked, digest)

    def _miss(self, asked: dict[str, Any], digest: str) -> CassetteMissError:
        again = "Record it again (pytest --cassette=record) if it should be asked"
        times = sum(exchange.digest == digest for exchange in self._mine)
        found = None if times else nearest(asked, [exchange.request for exchange in self._mine])
        position = None
        if times:
            what = f"this request was recorded {times} times, and the model was asked once more. {again}"
        elif found is None:
            what = f"nothing is recorded for this model, and it was asked. {again}"
        else:
            position, ratio = found
            what = (
                f"the model was asked what is not recorded. The nearest of {len(self._mine)} recorded requests is "
                f"number {position + 1}, {ratio:.0%} alike:\n"
                f"{difference(self._mine[position].request, asked)}\n{again}."
            )
        return CassetteMissError(what, path=self._cassette.path, request=asked, nearest=position)
