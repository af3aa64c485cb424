"""What is missing on a machine is told in a sentence: the operating system, an extra, the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cogstep.packages import UnsupportedSystemError, check_system
from runtime.models.installation import install_line

ROOT = Path(__file__).resolve().parent.parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_windows_is_refused_with_a_sentence_that_says_where_it_works() -> None:
    with pytest.raises(UnsupportedSystemError, match="runs on Linux and macOS, and not on Windows"):
        check_system("nt")
    check_system("posix")


@pytest.mark.parametrize("package", ["cogstep", "runtime", "interpreters", "interpreters.cli.main"])
def test_each_package_refuses_windows_at_import(package: str) -> None:
    """Before anything that is missing there: the name of the system is changed and nothing else, as far as one can."""
    done = run(f"import importlib.abc, importlib.util, pathlib, os\nos.name = 'nt'\nimport {package}")

    assert done.returncode == 1
    assert "UnsupportedSystemError: cogstep runs on Linux and macOS" in done.stderr.splitlines()[-1]


def test_the_pure_core_works_anywhere() -> None:
    done = run(
        "import os\nos.name = 'nt'\nfrom cognition import EchoEngine, AgentState, UserSpoke\nprint(EchoEngine())"
    )

    assert done.returncode == 0, done.stderr


HIDDEN = "import sys\nsys.modules['hypothesis'] = None\n"


@pytest.mark.parametrize(
    "code",
    [
        "import cognition.testing.strategies",
        "from cognition.testing.machine import machine",
        "from cognition import EchoEngine\nfrom cognition.testing import laws\nlaws(EchoEngine())[0].check()",
        "from interpreters.testing.fakes import generated_models",
    ],
)
def test_a_package_that_is_missing_names_its_extra(code: str) -> None:
    done = run(HIDDEN + code)

    assert done.returncode == 1
    assert "pip install 'cogstep[testing]'" in done.stderr.splitlines()[-1]


def test_a_remote_model_without_its_extra_names_it() -> None:
    """The base install knows the names, and says what is missing."""
    code = "import sys\nsys.modules['httpcore2'] = None\nimport runtime\nruntime.load_model('http://127.0.0.1:1/v1|m')"
    done = run(code)

    assert done.returncode == 1
    assert "ExtraMissingError" in done.stderr.splitlines()[-1]
    assert install_line("remote") in done.stderr.splitlines()[-1]


def test_the_laws_without_hypothesis_can_be_explored() -> None:
    code = (
        "from cognition import EchoEngine\nfrom cognition.testing import explore\nprint(explore(EchoEngine(), limit=5))"
    )

    assert run(HIDDEN + code).returncode == 0


def test_a_model_of_the_hub_without_a_network_is_one_line(tmp_path: Path) -> None:
    """The client's retries are told once, as the error that comes of them; a loopback port refuses them."""
    pytest.importorskip("huggingface_hub")
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
    code = (
        "import time\ntime.sleep = lambda seconds: None\n"
        "import sys\nfrom interpreters.cli.main import main\n"
        "sys.exit(main(['run', '--model', 'hf:nobody/nothing', 'Hi']))"
    )
    done = run(code, **nowhere)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "is not in the local cache, and the Hugging Face hub can't be reached" in done.stderr


def test_a_directory_of_models_that_no_disk_can_have_is_a_line_of_the_doctors_report() -> None:
    from interpreters.cli.reports.environment_report import examine_directory

    found = examine_directory(Path("x" * 5000))

    assert (found.exists, found.writable) == (False, False)
    assert len(found.path) <= 300


def test_two_interrupts_in_one_instant_while_a_model_closes_leave_with_130() -> None:
    """The second one comes while the first is on its way out: no traceback, and nothing is waited for."""
    code = """
import os, signal, sys
from interpreters.cli.session import session
from interpreters.cli.main import main
from interpreters.testing import fakes

class Closing(fakes.FunctionModel):
    def close(self):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
            super().close()

session._load = lambda options, output: Closing(lambda request: "Hello.")
sys.exit(main(["run", "Hi"]))
"""
    done = run(code)

    assert done.returncode == 130
    assert "Traceback" not in done.stderr
