"""A program that meets templates one after another, and says what each did to it: a line of JSON for each.

    python tests/runtime/templates/witness.py PLACE < TEMPLATES

``TEMPLATES`` is a JSON object of sources by name. A line has the name, what came of it (``ok``, or the error's class
and what it says), the seconds that it took, and the bytes of memory that this program and its templates' processes had
more at most than before. Where a template ends this program, its line is missing.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # for `python tests/runtime/templates/witness.py`

from cognition import CogstepError, GenerationOptions, History, ModelRequest, UserMessage
from interpreters.cli.main import main as cogstep
from runtime import load_model
from runtime.models.specs import SMALL_MODEL
from runtime.templates._fork_server import FORK_SERVER
from runtime.templates._isolated_renderer import PROCESSES
from runtime.templates.template import ChatTemplate
from tests.runtime.templates.bombs import TRIGGER, armed

PAGE = 4096

CHATTY = "{# messages #}"
"""What does not speak of messages is taken for no chat template."""


def derive(source: str) -> str:
    """Everything that a load asks of a template, and a rendering."""
    template = ChatTemplate(source)
    template.derivation, template.warnings  # noqa: B018 - they are found out when they are asked for
    template.render(request("Hello"))
    return "ok"


def step(source: str) -> str:
    """A rendering of one that has given no sign before."""
    template = ChatTemplate(armed(source))
    template.derivation, template.warnings  # noqa: B018 - they are found out when they are asked for
    template.render(request(TRIGGER))
    return "ok"


def show(source: str) -> str:
    """``cogstep format``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jinja"
        path.write_text(f"{source}{CHATTY}", "utf-8", "surrogatepass")
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = cogstep(["format", str(path)])
        assert "Traceback" not in errors.getvalue(), errors.getvalue()
        return "ok" if code == 0 else f"exit {code}: {errors.getvalue()}"


def gguf(source: str, *, isolate: bool = False) -> str:
    """A GGUF file is loaded, and asked."""
    from tests.runtime.tiny_models import write_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gguf"
        write_model(path, template=f"{source}{CHATTY}")
        return ask(lambda: load_model(str(path), isolate=isolate))


def mlx(source: str, *, isolate: bool = False) -> str:
    """An MLX directory is loaded, and asked."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (SMALL_MODEL / "mlx").iterdir():
            if file.name not in ("chat_template.jinja", "tokenizer_config.json"):
                (Path(folder) / file.name).symlink_to(file)
        told = json.loads((SMALL_MODEL / "mlx" / "tokenizer_config.json").read_text("utf-8"))
        (Path(folder) / "tokenizer_config.json").write_text(
            json.dumps({**told, "chat_template": f"{source}{CHATTY}"}), "utf-8"
        )
        return ask(lambda: load_model(folder, isolate=isolate))


def ask(load: Callable[[], Any]) -> str:
    with load() as model:
        *_, done = model.submit(request(TRIGGER))
        return "ok" if done.failure is None else f"failure: {done.failure.message}"


PLACES: Mapping[str, Callable[[str], str]] = {
    "derive": derive,
    "step": step,
    "format": show,
    "gguf": gguf,
    "mlx": mlx,
    "gguf, isolated": lambda source: gguf(source, isolate=True),
    "mlx, isolated": lambda source: mlx(source, isolate=True),
    "gguf, step": lambda source: gguf(armed(source)),
    "mlx, step": lambda source: mlx(armed(source)),
}


def request(text: str) -> ModelRequest:
    return ModelRequest("", History((UserMessage("m1", text),)), (), GenerationOptions(max_tokens=1))


def resident(pid: int | str) -> int:
    try:
        return PAGE * int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, IndexError):
        return 0


def family() -> int:
    """Bytes of this program and all its descendants."""
    total, open_ends = 0, ["self"]
    while open_ends:
        pid = open_ends.pop()
        total += resident(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                open_ends += (task / "children").read_text("ascii").split()
    return total


@contextlib.contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            peak.append(family())

    before = family()
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        peak[:] = [max(peak, default=before) - before]


def main() -> None:
    place = PLACES[sys.argv[1]]
    derive("{{ messages }}")  # what is imported and started once is no template's
    for name, source in json.load(sys.stdin).items():
        peak: list[int] = []
        began = time.monotonic()
        with watched(peak):
            try:
                said = place(source)
            except CogstepError as error:
                said = f"{type(error).__name__}: {error}"
            seconds = time.monotonic() - began
        print(json.dumps({"name": name, "said": said, "seconds": seconds, "bytes": peak[0]}), flush=True)
    assert len(PROCESSES.pids) <= 8, FORK_SERVER.pid


if __name__ == "__main__":
    main()
