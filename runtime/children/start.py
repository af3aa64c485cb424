"""The only way to start a child process of ours: for a model, a host or a template.

A child inherits from the program that starts it:

- **Module path**: Python starts isolated (``-I``: no working directory, no ``PYTHON*`` variables, no user site). Our
  own packages come only from the program's own location. Then follow the absolute entries of ``sys.path``, in their
  order. Entries that depend on the starting place are dropped: the working directory, the script's folder, relative
  entries of ``PYTHONPATH``. To pass such a folder on, put its absolute path in ``PYTHONPATH``. Folders passed to
  ``start`` come last, so that they hide nothing.
- **Environment**: the variables in ``NEEDED`` and those with a prefix in ``LIBRARIES``, except names of secrets, such
  as ``HF_TOKEN``. Search paths lose their relative entries.
- **Descriptors**: the three standard ones, and those passed to ``start``.
- **Lifetime**: a session of its own, so that Ctrl-C on the terminal goes to the program only; the child ends with the
  program.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
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
"""The folder of our packages, as Python found it and with symlinks resolved; possibly a zip file."""

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
"""The code that the child's Python runs. It imports nothing of the parent program: scripts need no ``if __name__ ==
"__main__"``, and a notebook or ``python -c`` works.
"""

SEARCHED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""Path lists; only their absolute entries are passed on. An empty entry means the working directory."""

USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The folders of programs if this program has no ``PATH``."""

NEEDED = (
    *SEARCHED, "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "TZ", "LANG", "LANGUAGE", "LOCALE_ARCHIVE",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
"""System variables that a child inherits. The proxies are only for downloads: see ``environment``."""

LIBRARIES = (
    "LC_", "XDG_", "COGSTEP_",
    "CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "ROCR_", "HIP_", "HSA_", "AMD_", "ONEAPI_", "SYCL_", "ZE_", "VK_", "GPU_",
    "METAL_", "MTL_", "MLX_", "GGML_", "LLAMA_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "MALLOC_",
    "HF_", "HUGGINGFACE_", "TOKENIZERS_", "TRANSFORMERS_", "SAFETENSORS_",
)  # fmt: skip
"""Prefixes of variables of locales, devices and model libraries."""

SECRET = re.compile(
    r"(?i)(^|_)(api)?(key|keys|token|tokens|secret|secrets|password|passwd|credential|credentials)(_|$)"
)
"""Names that mark a value as a secret."""

PROXY = re.compile(r"(?i)_proxy$")

HUB = ("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN")
"""Further variables of a child that downloads models."""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


STARTED_IN = _working_directory()
"""The working directory at import: ``python -m`` puts it on the path as an absolute entry."""

PYTHONPATH = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


def environment(further: Mapping[str, str] | None = None, *, downloads: bool = False) -> dict[str, str]:
    """Return the environment of a child.

    Args:
        further: additional or overriding variables.
        downloads: whether the child may download models: it then gets the hub's token and the proxies.
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


def find_program(name: str, avoided: Sequence[Path] = (), path: str | None = None) -> str | None:
    """Return the path of a program; None without one.

    Args:
        name: its name.
        avoided: folders that nothing is taken from, not even by a link: a confined command may write there.
        path: the folders to look in, of which only absolute ones count; None for our own ``PATH``.
    """
    folders = environment().get("PATH", USUAL_PATH) if path is None else path
    places = [Path(os.path.realpath(one)) for one in avoided if one != Path("/")]  # all of them are in that
    for folder in folders.split(os.pathsep):
        if os.path.isabs(folder) and not _is_within(folder, places):
            found = shutil.which(name, path=folder)
            if found is not None and not _is_within(found, places):
                return found
    return None


def without_loader(environ: Mapping[str, str], avoided: Path) -> dict[str, str]:
    """Return an environment in which no variable makes programs load a library from a folder."""
    found = {name: value for name, value in environ.items() if not is_of_loader(name)}
    for name in SEARCHED[1:]:
        kept = [
            one
            for one in environ.get(name, "").split(os.pathsep)
            if os.path.isabs(one) and not _is_within(one, [avoided])
        ]
        found |= {name: os.pathsep.join(kept)} if kept else {}
    return found


def is_of_loader(name: str) -> bool:
    """Whether a variable tells the system's loader, or the C library, where to find code."""
    return name.startswith(("LD_", "DYLD_")) or name in ("GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES")


def _is_within(path: str, places: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(place) or Path(path).is_relative_to(place) for place in places)


def module_path() -> list[str]:
    """Return the ``sys.path`` entries of a child."""
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
    """Return the folder of a module's outermost package, to pass to ``start``."""
    name = module.partition(".")[0]
    if name in OURS:
        return None
    spec = None
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(name)
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
    **streams: int,
) -> subprocess.Popen[bytes]:
    """Start a process that runs ``main()`` of a module; the module's docstring describes its arguments.

    Args:
        module: one of ours, or any that this program finds.
        arguments: ``sys.argv[1:]`` of the child.
        environ: its environment; None for ``environment()``.
        folder: its working directory; None for this program's. Nothing is imported from there.
        folders: where to find modules that are not found elsewhere; see ``folder_of``.
        descriptors: inherited beside the standard ones, under the same numbers.
        streams: ``stdin``, ``stdout`` and ``stderr`` as in ``subprocess.Popen``. The default of the first two is to be
            empty, and of the last to be this program's own.

    Raises:
        OSError: the system cannot start it.
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
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams},
    )


def connect(module: str, **options: Any) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process like ``start``, and return it with a connection to it; its one argument is the descriptor."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            return start(module, [str(theirs.fileno())], descriptors=[theirs.fileno()], **options), ours
        except BaseException:
            ours.close()
            raise


def run(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Run ``subprocess.Popen`` with a new session, on a thread that lives as long as the program.

    On Linux, a child that asked to end with its parent ends when the *thread* that started it ends.
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


@cache
def _starter() -> SimpleQueue[Work]:
    """Start the thread. Two callers at once may each start one; all serve as long as the program lives."""
    work: SimpleQueue[Work] = SimpleQueue()
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
    os.register_at_fork(after_in_child=_starter.cache_clear)  # a forked process does not have its parent's thread
