"""Whatever lies in the folder where a program is started, no child of ours runs it; and a child gets what it needs."""

import json
import os
import select
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import attr
import attrs
import cattrs
import pytest

from runtime.children import start as starting

ROOT = Path(__file__).resolve().parents[3]
LONG = 60
CHILD = "tests.runtime.children.reporting"

PLANTED = (
    "interpreters", "runtime", "cognition", "cogstep", "json", "os", "struct", "socket", "ctypes", "attrs", "attr",
    "cattrs", "numpy", "jinja2", "sitecustomize", "usercustomize", "encodings",
)  # fmt: skip
"""Modules that a hostile folder holds: ours, the library's, dependencies', and those that Python runs by itself."""

TRAP = "import pathlib; pathlib.Path({trace!r}).touch()\nraise SystemExit('planted {name} was run')\n"

START = f"""
import os, subprocess, sys
from runtime.children import start
{{before}}
os.environ.update({{variables}})
child = start.start({CHILD!r}, ["a", "b"], folders=[{str(ROOT)!r}], stdout=subprocess.PIPE)
sys.stdout.write(child.communicate()[0].decode())
"""
"""Plants the traps only once what the program itself needs is there: it is the child that is looked at."""


def plant(folder: Path, trace: Path) -> str:
    """Code that fills a folder with traps."""
    lines = [f"import pathlib; folder = pathlib.Path({str(folder)!r}); folder.mkdir(exist_ok=True)"]
    for name in PLANTED:
        lines.append(f"(folder / {name + '.py'!r}).write_text({TRAP.format(trace=str(trace), name=name)!r})")
    return "\n".join(lines)


def program(tmp_path: Path, how: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program that starts a child, in a folder that is full of traps by then."""
    hostile, trace = tmp_path / "hostile", tmp_path / "trace"
    hostile.mkdir()
    code = START.format(before=plant(hostile, trace), variables=variables)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", code]
    if how == "script":
        (hostile / "main.py").write_text(code)
        command = [sys.executable, "main.py"]
    elif how == "script elsewhere":
        (tmp_path / "main.py").write_text(code)
        command = [sys.executable, str(tmp_path / "main.py")]
    elif how == "module":
        (hostile / "program.py").write_text(code)
        command = [sys.executable, "-m", "program"]
    elif how == "standard input":
        command = [sys.executable, "-"]
    elif how.startswith("PYTHONPATH="):
        environ["PYTHONPATH"] = how.partition("=")[2].replace("ROOT", str(ROOT))
    elif how == "folder":
        (hostile / "program").mkdir()
        (hostile / "program" / "__main__.py").write_text(code)
        command = [sys.executable, "program"]
    done = subprocess.run(
        command, cwd=hostile, env=environ, input=code, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert not trace.exists(), done.stderr
    return done


@pytest.mark.parametrize(
    "how",
    [
        "-c",
        "standard input",
        "script",
        "script elsewhere",
        "module",
        "folder",
        "PYTHONPATH=ROOT:",
        "PYTHONPATH=ROOT:.",
        "PYTHONPATH=.:ROOT",
        "PYTHONPATH=ROOT:../hostile",
        "PYTHONPATH=:ROOT",
    ],
)
def test_nothing_of_the_folder_is_run_however_the_program_runs(tmp_path: Path, how: str) -> None:
    """The traps are set before the child starts, and leave a trace where one is run."""
    done = program(tmp_path, how, {})
    said = json.loads(done.stdout)

    assert str(tmp_path) not in " ".join(place for place in said["path"] if not place.endswith("/program"))
    assert (said["interpreters"], said["arguments"]) == (str(ROOT / "interpreters" / "__init__.py"), ["a", "b"])
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", ""),
        ("PYTHONPATH", "."),
        ("PYTHONPATH", "{hostile}"),
        ("PYTHONHOME", "{hostile}"),
        ("PYTHONSTARTUP", "{hostile}/json.py"),
        ("PYTHONUSERBASE", "."),
        ("PYTHONINSPECT", "1"),
        ("PYTHONBREAKPOINT", "sitecustomize.trap"),
        ("PYTHONPLATLIBDIR", "{hostile}"),
        ("PYTHONEXECUTABLE", "{hostile}/python"),
        ("PYTHONWARNINGS", "error::json.Trap"),
        ("HOME", "."),
        ("LD_PRELOAD", "./planted.so"),
        ("LD_LIBRARY_PATH", ".:"),
        ("PATH", ":.:bin"),
        ("BASH_ENV", "{hostile}/json.py"),
    ],
)
def test_no_variable_leads_into_the_folder(tmp_path: Path, name: str, value: str) -> None:
    """Set in the program by the time it starts a child."""
    done = program(tmp_path, "-c", {name: value.format(hostile=tmp_path / "hostile")})
    said = json.loads(done.stdout)

    assert str(tmp_path) not in " ".join(said["path"])
    assert done.stderr == ""
    assert name == "HOME" or name not in said["environment"]


def test_a_folder_that_is_named_by_its_absolute_path_crosses(tmp_path: Path) -> None:
    """In ``PYTHONPATH``, which says it of children too, or to ``start``, where it comes last."""
    named = tmp_path / "named"
    named.mkdir()
    code = START.format(before="", variables={})
    environ = os.environ | {"PYTHONPATH": f"{named}:{ROOT}"}
    run = subprocess.run([sys.executable, "-c", code], cwd=named, env=environ, capture_output=True, check=True)
    path = json.loads(run.stdout)["path"]

    assert str(named) in path
    assert path.index(str(named)) < path.index(str(ROOT))


def test_a_module_of_the_program_is_found_though_its_folder_hides_nothing(tmp_path: Path) -> None:
    """A script's neighbour is what the program names; what else lies beside it stands behind all that is installed."""
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    (home / "mine.py").write_text("def main():\n    import json, interpreters\n    print('mine', json.loads('1'))\n")
    code = START.format(before=plant(home, trace), variables={}).replace(repr(CHILD), "'mine'")
    (home / "main.py").write_text(code)
    run = subprocess.run(
        [sys.executable, "main.py"],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )

    assert (run.stdout, trace.exists()) == (b"mine 1\n", False)


def test_it_starts_out_of_a_zip_file(tmp_path: Path) -> None:
    """With all that it needs in there; the child finds it there too, and nothing beside it."""
    app, trace = tmp_path / "app.pyz", tmp_path / "trace"
    packages = [ROOT / name for name in starting.OURS] + [Path(one.__file__).parent for one in (attr, attrs, cattrs)]
    code = START.format(before=plant(tmp_path, trace), variables={}).replace(repr(str(ROOT)), "")
    with zipfile.ZipFile(app, "w") as archive:
        for package in packages:
            for file in package.rglob("*.py"):
                archive.write(file, file.relative_to(package.parent))
        archive.write(ROOT / "tests/runtime/children/reporting.py", "tests/runtime/children/reporting.py")
        archive.writestr("__main__.py", code)
    run = subprocess.run([sys.executable, str(app)], cwd=tmp_path, capture_output=True, check=False)

    assert (run.stderr, trace.exists()) == (b"", False)
    assert json.loads(run.stdout)["interpreters"].startswith(str(app))


@pytest.mark.parametrize(
    ("name", "crosses"),
    [
        ("PATH", True),
        ("HOME", True),
        ("LANG", True),
        ("LC_ALL", True),
        ("TMPDIR", True),
        ("XDG_CACHE_HOME", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("OMP_NUM_THREADS", True),
        ("HF_HOME", True),
        ("HF_HUB_OFFLINE", True),
        ("GGML_METAL_NDEBUG", True),
        ("MLX_METAL_DEBUG", True),
        ("TOKENIZERS_PARALLELISM", True),
        ("COGSTEP_REAL_MODELS", True),
        ("HF_TOKEN", False),
        ("HUGGING_FACE_HUB_TOKEN", False),
        ("HUGGINGFACE_API_KEY", False),
        ("OPENAI_API_KEY", False),
        ("ANTHROPIC_API_KEY", False),
        ("AWS_ACCESS_KEY_ID", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("AWS_PROFILE", False),
        ("GITHUB_TOKEN", False),
        ("LLAMA_API_KEY", False),
        ("MLX_SECRET", False),
        ("COGSTEP_DATABASE_PASSWORD", False),
        ("DATABASE_URL", False),
        ("SSH_AUTH_SOCK", False),
        ("HTTPS_PROXY", False),
        ("LD_PRELOAD", False),
        ("PYTHONPATH", False),
        ("DYLD_INSERT_LIBRARIES", False),
        ("ANYTHING", False),
    ],
)
def test_a_child_gets_what_it_needs_and_no_secret(name: str, crosses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program holds in its environment is nobody else's."""
    monkeypatch.setenv(name, "/value")

    assert (name in starting.environment()) == crosses
    assert starting.environment({name: "given"})[name] == "given"


def test_a_child_that_downloads_gets_the_token_of_the_hub_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HTTPS_PROXY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "value")

    assert {"HF_TOKEN", "HTTPS_PROXY"} <= starting.environment(downloads=True).keys()
    assert "OPENAI_API_KEY" not in starting.environment(downloads=True)


def test_search_paths_lose_what_is_not_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry is the working directory, for the linker and for the shell."""
    monkeypatch.setenv("PATH", ":/usr/bin:.:bin:/bin:")
    monkeypatch.setenv("LD_LIBRARY_PATH", ":")

    assert starting.environment()["PATH"] == "/usr/bin:/bin"
    assert "LD_LIBRARY_PATH" not in starting.environment()


def test_a_child_has_a_session_of_its_own_and_no_descriptor_that_was_not_named() -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(ours, True)
    try:
        with starting.start(CHILD, descriptors=[theirs], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            said = json.loads(child.stdout.read())
    finally:
        os.close(ours)
        os.close(theirs)

    assert (said["session"], said["folder"]) == (True, "/")
    assert {0, 1, 2, theirs} <= set(said["descriptors"])
    assert len(said["descriptors"]) == 5  # and the one that reads the list


WAITING = """
import subprocess, sys, threading
from runtime.children import start
started = []
thread = threading.Thread(target=lambda: started.append(
    start.start("tests.runtime.children.waiting", folders=[{root!r}], stdout=subprocess.PIPE)))
thread.start(); thread.join()
print(started[0].stdout.readline().decode().strip(), flush=True)
assert started[0].poll() is None
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="there is no way to wait for a process that is not ours")
def test_a_child_ends_with_the_program_and_not_with_the_thread_that_asked_for_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING.format(root=str(ROOT))],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        child = os.pidfd_open(int(program.stdout.readline()))
        program.kill()
    try:
        assert select.select([child], [], [], LONG)[0] == [child]
    finally:
        os.close(child)


@pytest.mark.skipif(shutil.which("false") is None, reason="there is no command that fails")
def test_what_can_not_be_started_is_an_error_of_the_caller() -> None:
    with pytest.raises(FileNotFoundError):
        starting.run(["/no/such/program"])
    assert starting.run(["false"]).wait(LONG) == 1
