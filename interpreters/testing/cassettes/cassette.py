"""A cassette: the model's side of a test, recorded once with a real model and played without one from then on.

    def test_multiplication(cassette):
        with Agent(cassette.model(load_model), tools=[multiply]) as agent:
            assert agent.run("What is 17 * 23?").calls[0].content == "391"

Played, ``load_model`` is never called: a request that was not recorded is an error that shows the nearest one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from attrs import evolve

from cognition import ConfigError, ModelRequest
from cognition.content import MEDIA_TYPES
from cognition.parsing import Output, TextDelta
from interpreters.program.owning import closed_with
from interpreters.recording.redaction import Redaction
from interpreters.recording.veil import Veil
from interpreters.testing.cassettes.errors import CassetteMissError
from interpreters.testing.cassettes.requests import Scrub, difference, nearest, request_data, request_digest
from interpreters.testing.cassettes.tape import Exchange, Tape, data_of_reply, read_tape, reply_of_data, write_tape
from interpreters.testing.fakes.models import ReplyingModel
from interpreters.testing.fakes.scripts import Reply
from runtime.protocol import Done, Generation, ModelInfo, Runtime

Mode = Literal["replay", "record", "new", "off"]
"""``replay``: play what is on file, ask no model. ``record``: ask the real model, and write what it says, over what was
there. ``new``: play a cassette that there is, record one that there is not. ``off``: ask the real model and write
nothing."""


USUAL = Redaction()
"""What is kept out of a cassette unless told otherwise."""


class Cassette:
    """The replies of one or more models, on file.

    Args:
        path: the JSON file; see ``tape`` for its form.
        mode: see ``Mode``.
        scrub: what to put right in requests before they are compared and written: pairs of a regular expression and
            what stands in its place. For dates and paths in prompts. Replies are written as they come.
        redact: what is kept out of the file, of requests and replies: by default what looks like a secret. It has
            placeholders there, and where a reply holds a secret of its request or one with a name, it is played with
            the one that the request has then. None: everything is written as it is.

    Usable in a ``with`` statement, which writes the file at its end unless an exception leaves it.

    Raises:
        CassetteError: the file is to be played, and can't be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "replay",
        *,
        scrub: Iterable[Scrub] = (),
        redact: Redaction | None = USUAL,
    ) -> None:
        self.path = Path(path)
        self._file = self.path.absolute()  # where it is written at the end, wherever the program stands by then
        self.scrub = list(scrub)
        self.redact = redact
        self.mode: Literal["replay", "record", "off"] = (
            ("replay" if self._file.exists() else "record") if mode == "new" else mode
        )
        """``new`` has become one of the others."""
        self._tape: Tape | None = None
        self._lock = threading.Lock()

    @property
    def tape(self) -> Tape:
        """What is on it. Read when it is first needed, so that a test that asks no model needs no file.

        Raises:
            CassetteError: there is none to be played, or it can't be read.
        """
        with self._lock:
            if self._tape is None:
                self._tape = read_tape(self._file) if self.mode == "replay" else Tape()
            return self._tape

    @property
    def exchanges(self) -> list[Exchange]:
        """All requests and replies, in the order of asking."""
        return self.tape.exchanges

    @property
    def unused(self) -> list[int]:
        """Positions of what was to be played and was not, from 0; empty if no model was made of it."""
        if self.mode != "replay" or self._tape is None:
            return []
        return [position for position, exchange in enumerate(self._tape.exchanges) if not exchange.used]

    def model(self, load: Callable[[], Runtime], name: str = "") -> Runtime:
        """The model for an agent: played, or ``load()`` recorded. Each one plays from the beginning.

        Args:
            load: gives the real model; called only when it is asked for real. It is left to who made it, as with any
                agent, and one that nobody else holds is freed with the agent.
            name: tells the models of a test apart, where there are several.

        Raises:
            CassetteError: the cassette is to be played and can't be read.
            ConfigError: ``load`` is a model and not a function that gives one.
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

    def hidden(self, request: ModelRequest) -> tuple[dict[str, Any], Veil]:
        """A request as it is compared and written, and what shows a reply to it as it was.

        Secrets are numbered in the order in which they stand in the request, so that another key in the place of the
        recorded one makes no other request.
        """
        names = frozenset(tool.name for tool in request.tools)
        veil = Veil(self.redact, keep=names, literal=False)
        shown, _ = veil.hide(request)
        return request_data(shown, self.scrub), veil

    def save(self) -> bool:
        """Write what was recorded; whether there was anything to write.

        Raises:
            CassetteError: it can't be written.
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
    """A real model whose replies are written down. See ``runtime.Runtime``."""

    def __init__(self, cassette: Cassette, model: Runtime, name: str) -> None:
        self._cassette = cassette
        self._model = model
        self._name = name

    @property
    def ends_with_agent(self) -> bool:
        """As the model that is recorded, such as a script whose replies all have to be asked for."""
        return closed_with(self._model, None)

    def submit(self, request: ModelRequest) -> Generation:
        generation = self._model.submit(request)
        data, veil = self._cassette.hidden(request)
        exchange = Exchange(request_digest(data), data, {}, self._name)
        return Recording(generation, exchange, self._keep, veil)

    def _keep(self, exchange: Exchange) -> None:
        self._cassette.exchanges.append(exchange)

    def count_tokens(self, request: ModelRequest) -> int:
        return self._model.count_tokens(request)

    def describe(self) -> ModelInfo:
        return self._model.describe()

    def close(self) -> None:
        self._model.close()


class Recording:
    """A reply on its way that is written down at its end. See ``runtime.Generation``."""

    def __init__(
        self, generation: Generation, exchange: Exchange, keep: Callable[[Exchange], None], veil: Veil
    ) -> None:
        self._generation = generation
        self._exchange = exchange
        self._keep = keep
        self._veil = veil
        self._pieces = 0

    def __iter__(self) -> Recording:
        return self

    def __next__(self) -> Output | Done:
        output = next(self._generation)
        if isinstance(output, TextDelta):
            self._pieces += 1
        elif isinstance(output, Done):
            hidden, _ = self._veil.hide(output)
            self._exchange.reply = data_of_reply(hidden, self._pieces)
            self._keep(self._exchange)
        return output

    def cancel(self) -> None:
        self._generation.cancel()


class PlayedModel(ReplyingModel):
    """Gives the recorded replies, each to the request that it was given to. Equal requests get theirs in order."""

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
        asked, veil = self._cassette.hidden(request)
        recorded, pieces = reply_of_data(self._take(asked).reply)
        done = veil.reveal(recorded)
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
        path = self._cassette.path
        again = "Record it again (pytest --cassette=record) if it should be asked"
        times = sum(exchange.digest == digest for exchange in self._mine)
        if times:
            what = f"this request was recorded {times} times, and the model was asked once more. {again}"
            return CassetteMissError(what, path=path, request=asked, nearest=None)
        found = nearest(asked, [exchange.request for exchange in self._mine])
        if found is None:
            what = f"nothing is recorded for this model, and it was asked. {again}"
            return CassetteMissError(what, path=path, request=asked, nearest=None)
        position, ratio = found
        what = (
            f"the model was asked what is not recorded. The nearest of {len(self._mine)} recorded requests is number "
            f"{position + 1}, {ratio:.0%} alike:\n{difference(self._mine[position].request, asked)}\n{again}."
        )
        return CassetteMissError(what, path=path, request=asked, nearest=position)
