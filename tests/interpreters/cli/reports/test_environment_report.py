"""Which install line fits which machine, what a probe's last words mean, and where things are kept."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from interpreters.cli.reports.environment_report import (
    WHEELS,
    BackendReport,
    DirectoryReport,
    EnvironmentReport,
    Finding,
    Machine,
    examine_directory,
    hub_cache,
    install_lines,
    llama_line,
    mlx_line,
    report_lines,
    this_machine,
    understand,
)
from runtime.files import state_directory
from runtime.models.installation import install_line
from runtime.programs.installed_programs import InstalledProgram

LINUX = Machine("Linux", "x86_64", (3, 12), (2, 36))
H200 = Machine("Linux", "x86_64", (3, 12), (2, 36), ("NVIDIA H200",), (12, 8))


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (LINUX, install_line("llama", index=f"{WHEELS}cpu")),
        (H200, install_line("llama", index=f"{WHEELS}cu125")),
        (
            Machine("Linux", "x86_64", (3, 11), (2, 36), ("A100",), (13, 9)),
            install_line("llama", index=f"{WHEELS}cu132"),
        ),
        (
            Machine("Linux", "x86_64", (3, 13), (2, 36), ("A100",), (12, 8)),
            install_line("llama", environment="CMAKE_ARGS=-DGGML_CUDA=on"),
        ),
        (
            Machine("Linux", "x86_64", (3, 12), (2, 36), ("K80",), (11, 4)),
            install_line("llama", environment="CMAKE_ARGS=-DGGML_CUDA=on"),
        ),
        (
            Machine("Linux", "x86_64", (3, 12), (2, 36), ("K80",), None),
            install_line("llama", environment="CMAKE_ARGS=-DGGML_CUDA=on"),
        ),
        (
            Machine("Darwin", "arm64", (3, 12)),
            install_line("llama", index=f"{WHEELS}metal"),
        ),
        (Machine("Darwin", "arm64", (3, 13)), install_line("llama", environment="CMAKE_ARGS=-DGGML_METAL=on")),
        (
            Machine("Darwin", "x86_64", (3, 12)),
            install_line("llama", index=f"{WHEELS}cpu"),
        ),
    ],
)
def test_llama_is_installed_from_the_index_that_fits(machine: Machine, expected: str) -> None:
    """The newest CUDA that the driver runs, Metal on Apple silicon, else the CPU; without a wheel it is compiled."""
    assert llama_line(machine).command == expected


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine("Darwin", "arm64", (3, 13)), "wheels, with Metal"),
        (LINUX, "wheels, for the CPU"),
        (Machine("Linux", "x86_64", (3, 12), (2, 31)), "there is no wheel"),
        (Machine("Linux", "x86_64", (3, 12), None), "there is no wheel"),
        (Machine("Darwin", "x86_64", (3, 12)), "there is no wheel"),
    ],
)
def test_mlx_says_where_it_has_wheels(machine: Machine, expected: str) -> None:
    """Apple silicon, and Linux with a C library that is new enough."""
    assert mlx_line(machine).note.startswith(expected)


def test_this_machine_has_an_install_line_for_each_backend() -> None:
    """Facts can be gathered wherever the tests run."""
    assert [line.backend for line in install_lines(this_machine())] == ["llama", "mlx"]


FOUND = {"works": True, "answer": "391", "device": "CPU", "tool_called": True}


@pytest.mark.parametrize(
    ("code", "out", "err", "expected"),
    [
        (0, [{"stage": "import"}, {"found": FOUND}], "", Finding(**FOUND)),
        (-11, [{"stage": "load"}], "", Finding(False, "its process was killed by SIGSEGV while loading the model")),
        (-99, [], "", Finding(False, "its process was killed by signal 99 while importing the package")),
        (1, [{"stage": "answer"}], "a\nb: c\n", Finding(False, "its process ended with code 1 while answering: b: c")),
        (1, [], "", Finding(False, "its process ended with code 1 while importing the package")),
        # It found its answer and then crashed in a destructor of the backend: it works.
        (-6, [{"found": FOUND}], "", Finding(**FOUND)),
    ],
)
def test_the_end_of_a_probe_is_a_finding(code: int, out: list[object], err: str, expected: Finding) -> None:
    """A crash names the signal and the stage; what native code prints in between is no trouble."""
    noise = b"llama_init: \xff\n17\n"

    assert (
        understand(code, noise + b"".join(json.dumps(line).encode() + b"\n" for line in out), err.encode()) == expected
    )


def report(*backends: BackendReport) -> EnvironmentReport:
    return EnvironmentReport(
        "1.0", "3.12", "Linux", H200, backends, None, DirectoryReport("/hub", False, True),
        DirectoryReport("/state", True, False),
        install_lines(H200), "/bin/bash; commands can be confined by /usr/bin/bwrap", True,
    )  # fmt: skip


def test_a_report_says_what_works_and_what_to_do() -> None:
    """Each backend and each place has a line of its own; what is broken is marked and red."""
    works = BackendReport("llama", True, {"llama-cpp-python": "0.3"}, Finding(True, answer="391", device="CPU"))
    crashes = BackendReport("mlx", True, {"mlx": "0.32"}, Finding(False, "it crashed"))

    lines = list(report_lines(report(works, crashes)))
    texts = [text for text, _ in lines]

    assert texts[1].startswith("✓ llama.cpp (llama-cpp-python 0.3) on the CPU: works")
    assert lines[2] == ("✗ MLX (mlx 0.32): it crashed", "error")
    assert texts[3] == "· GPU: NVIDIA H200, driver for CUDA up to 12.8"
    assert texts[4] == f"· models: /hub (not there yet); {install_line('hub')} to use hf: models"
    assert lines[5] == ("✗ state: /state can't be written; see to its permissions", "error")
    assert texts[6] == "✓ shell: /bin/bash; commands can be confined by /usr/bin/bwrap"
    assert not any("no backend works" in text for text in texts)


def test_programs_that_can_be_models_have_a_line_each() -> None:
    programs = (
        InstalledProgram("claude", "/usr/bin/claude", "2.1.197"),
        InstalledProgram("codex", problem="not installed; npm install"),
        InstalledProgram("codex", "/x/codex", problem="did not say its version (code 1)"),
    )
    lines = list(report_lines(evolve(report(), programs=programs)))

    assert lines[5:8] == [
        ("✓ claude 2.1.197: /usr/bin/claude", "plain"),
        ("· codex: not installed; npm install", "plain"),
        ("✗ codex: /x/codex did not say its version (code 1)", "error"),
    ]


def test_a_machine_without_a_backend_is_told_so_at_the_end() -> None:
    """The last line says what to do."""
    *_, (last, style) = report_lines(report(BackendReport("llama", False, {})))

    assert (last, style) == ("✗ no backend works: install one with a line above", "error")


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"HOME": "/home/ada"}, "linux", "/home/ada/.local/state/cogstep"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/s"}, "linux", "/s/cogstep"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "linux", "/home/ada/.local/state/cogstep"),
        ({"HOME": "/Users/ada"}, "darwin", "/Users/ada/Library/Application Support/cogstep"),
    ],
)
def test_state_is_kept_where_the_platform_keeps_it(environment: dict[str, str], platform: str, expected: str) -> None:
    """The XDG directory where there is one, else the platform's own."""
    assert state_directory(environment, platform) == Path(expected)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
    ],
)
def test_the_hub_cache_is_the_one_that_the_hub_uses(environment: dict[str, str], expected: str) -> None:
    """The same variables in the same order."""
    assert hub_cache(environment) == Path(expected)


def test_looking_at_a_place_creates_nothing(tmp_path: Path) -> None:
    """A directory that could be made is writable and not there, before and after."""
    wanted = tmp_path / "a" / "b"

    assert examine_directory(wanted) == DirectoryReport(str(wanted), False, True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert not examine_directory(tmp_path / "file" / "below").writable
