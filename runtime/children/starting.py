"""The one way in which a child process of ours is started, whatever it is for: a model, a host, a template.

What a child gets of the program that starts it:

- **Module path**: Python starts isolated (``-I``: no working directory, no ``PYTHON*`` variables, no user site), and
  our own packages are taken from where this program has them and from nowhere else. Then it gets the absolute entries
  of ``sys.path``, in their order, without those that Python or a relative ``PYTHONPATH`` put there by the place the
  program was started in: the working directory, the script's folder. ``PYTHONPATH`` names such a folder for children by
  its absolute path. Folders that the program names to ``start`` come last, so that nothing there hides anything else.
- **Environment**: the variables in ``NEEDED`` and those that begin with a word of ``LIBRARIES``, but for names such as
  ``HF_TOKEN`` that say themselves that they hold a secret; search paths lose their relative entries.
- **Descriptors**: the three standard ones, and those that are named.
- **Life**: a session of its own, so that Ctrl-C on the terminal is the program's to answer; it ends with the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from multiprocessing import spawn
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from runtime.children.frozen import FLAG

OURS = ("cogstep", "cognition", "runtime", "interpreters")

HOMES = [
    str(Path(place).parents[2]) for place in dict.fromkeys((os.path.abspath(__file__), os.path.realpath(__file__)))
]
"""Where our packages stand, as Python found them and where links lead from there; perhaps a zip file."""

BOOT = """
import json, sys
from importlib.machinery import PathFinder
given = json.loads(sys.argv[1])
class Ours:
    def find_spec(name, path=None, target=None):
        if path is None and name in given["ours"]:
            return PathFinder.find_spec(name, given["homes"])
sys.meta_path.insert(0, Ours)
known = dict.fromkeys(given["path"] + sys.path)
sys.path[:] = [*known, *(place for place in given["folders"] if place not in known)]
from runtime.children.boot import begin
begin(given)
"""
"""What Python is told to run: nothing of the program that starts it, so that scripts need no
``if __name__ == "__main__"``, and a notebook or ``python -c`` will do."""

SEARCHED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""Lists of folders, of which only the absolute ones cross: an empty entry is the working directory."""

NEEDED = (
    *SEARCHED, "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "TZ", "LANG", "LANGUAGE", "LOCALE_ARCHIVE",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables of the system that a child gets. The proxies are for downloads alone: see ``environment``."""

LIBRARIES = (
    "LC_", "XDG_", "COGSTEP_",
    "CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "ROCR_", "HIP_", "HSA_", "AMD_", "ONEAPI_", "SYCL_", "ZE_", "VK_", "GPU_",
    "METAL_", "MTL_", "MLX_", "GGML_", "LLAMA_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "MALLOC_",
    "HF_", "HUGGINGFACE_", "TOKENIZERS_", "TRANSFORMERS_", "SAFETENSORS_",
)  # fmt: skip
"""How the names of variables begin that locales, devices and the libraries of models read."""

SECRET = re.compile(
    r"(?i)(^|_)(api)?(key|keys|token|tokens|secret|secrets|password|passwd|credential|credentials)(_|$)"
)
"""Names that say that their value is a secret."""

PROXY = re.compile(r"(?i)_proxy$")

HUB = ("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN")
"""What a child gets in which models are downloaded."""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


STARTED_IN = _working_directory()
"""When this was imported: ``python -m`` puts it on the path as an absolute entry."""

PYTHONPATH = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


def environment(further: Mapping[str, str] | None = None, *, downloads: bool = False) -> dict[str, str]:
    """The variables that a child gets.

    Args:
        further: those that the program gives it beside these, or in the place of one.
        downloads: whether it may have to download models: it gets the hub's token and the proxies then.
    """
    given = {}
    for name, value in os.environ.items():
        if name in HUB or PROXY.search(name):
            crosses = downloads and (name in HUB or name in NEEDED)
        else:
            crosses = (name in NEEDED or name.startswith(LIBRARIES)) and not SECRET.search(name)
        if crosses and name in SEARCHED:
            value = os.pathsep.join(place for place in value.split(os.pathsep) if os.path.isabs(place))
            crosses = bool(value)
        if crosses:
            given[name] = value
    return {**given, **(further or {})}


def module_path() -> list[str]:
    """The entries of ``sys.path`` that a child gets."""
    here = [STARTED_IN, _working_directory(), *(os.path.join(STARTED_IN, place) for place in PYTHONPATH)]
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    if script and getattr(main, "__spec__", None) is None:  # a folder or a zip file that is run is named, and has one
        here += [os.path.dirname(os.path.abspath(script)), os.path.dirname(os.path.realpath(script))]
    dropped = {os.path.realpath(place) for place in here if place}
    named = {place for place in PYTHONPATH if os.path.isabs(place)}
    return [
        place
        for place in dict.fromkeys(sys.path)
        if os.path.isabs(place) and (place in named or os.path.realpath(place) not in dropped)
    ]


def folder_of(module: str) -> str | None:
    """The folder in which this program finds a module's outermost package, so as to name it to ``start``."""
    name = module.partition(".")[0]
    if name in OURS:
        return None
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.has_location and spec.origin else [])
    return os.path.dirname(os.path.abspath(places[0])) if places else None


def start(
    module: str,
    arguments: Sequence[str] = (),
    *,
    environ: Mapping[str, str] | None = None,
    folder: str | None = "/",
    folders: Sequence[str] = (),
    descriptors: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that runs ``main()`` of a module; the module's docstring says with what.

    Args:
        module: of ours, or one that this program finds.
        arguments: what stands behind ``sys.argv[0]`` there.
        environ: its environment; None for ``environment()``.
        folder: where it runs; None for this program's working directory. Nothing is imported from there.
        folders: where it may find modules that are found nowhere else; see ``folder_of``.
        descriptors: those that it gets beside the standard ones, under the same numbers.
        stdin: as of ``subprocess.Popen``.
        stdout: as of ``subprocess.Popen``.
        stderr: as of ``subprocess.Popen``; None for this program's own.

    Raises:
        OSError: the system can't.
    """
    given = {"module": module, "arguments": [*arguments], "parent": os.getpid()}
    if getattr(sys, "frozen", False):
        command = [sys.executable, FLAG, json.dumps(given)]
    else:
        folders = [place for place in (*folders, folder_of(module)) if place]
        given |= {"ours": OURS, "homes": HOMES, "path": module_path(), "folders": folders}
        flags = ["-I", *(["-B"] if sys.dont_write_bytecode else []), *(["-X", "utf8"] if sys.flags.utf8_mode else [])]
        command = [os.fsdecode(spawn.get_executable()), *flags, "-c", BOOT, json.dumps(given)]
    return run(
        command,
        env=dict(environment() if environ is None else environ),
        cwd=folder,
        pass_fds=tuple(descriptors),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def run(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """``subprocess.Popen`` with a session of its own, on a thread that lives as long as the program.

    Linux ends a child that asked to end with its parent as soon as the *thread* ends that started it.
    """
    started: Future[subprocess.Popen[bytes]] = Future()
    _starter().put((started, lambda: subprocess.Popen(command, start_new_session=True, **options)))
    try:
        return started.result()
    except BaseException:  # Ctrl-C while it starts: nobody will hold it
        started.add_done_callback(_end_unheld)
        raise


def _end_unheld(started: Future[subprocess.Popen[bytes]]) -> None:
    if started.exception() is None:
        process = started.result()
        process.kill()
        process.wait()


Work = tuple[Future[Any], Callable[[], Any]]

_LOCK = threading.Lock()
_STARTERS: dict[int, SimpleQueue[Work]] = {}
"""By process: one that was forked off has no thread of its parent's."""


def _starter() -> SimpleQueue[Work]:
    with _LOCK:
        work = _STARTERS.get(os.getpid())
        if work is None:
            _STARTERS.clear()
            work = _STARTERS[os.getpid()] = SimpleQueue()
            threading.Thread(target=_serve, args=(work,), name="cogstep starter", daemon=True).start()
        return work


def _serve(queue: SimpleQueue[Work]) -> None:
    while True:
        started, make = queue.get()
        try:
            started.set_result(make())
        except BaseException as error:  # whoever asked is told
            started.set_exception(error)
        del started, make  # else the last one would be held until the next


with contextlib.suppress(AttributeError):  # Windows does not fork
    os.register_at_fork(after_in_child=lambda: globals().update(_LOCK=threading.Lock()))
