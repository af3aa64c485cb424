"""The install lines name the source of this installation, and the tool that manages its environment.

Each expected line was run by hand on an installation of its kind (pip 23.2, uv 0.13, pipx 1.18), and added the extra.
"""

import json
import shlex
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runtime.models.installation import Installation, Manager, install_line, installation, read_installation

METADATA = """\
Metadata-Version: 2.4
Name: cogstep
Version: 0.1.0
Requires-Dist: attrs>=25.1
Provides-Extra: mlx
Requires-Dist: mlx-lm<0.33,>=0.32; extra == 'mlx'
Requires-Dist: mlx[cpu]<0.33,>=0.32.2; (platform_system == 'Linux') and extra == 'mlx'
Requires-Dist: regex>=2025.9; extra == "schemas"
"""
PYTHON = "/env/bin/python"


def installed(folder: Path, direct_url: dict[str, Any] | None) -> PathDistribution:
    """An installed distribution, as pip leaves it."""
    info = folder / "cogstep-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    return PathDistribution(info)


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The line that adds ``mlx`` to an installation in an environment with pip, which isn't on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)

    def of(direct_url: dict[str, Any] | None, prefix: Path = tmp_path / "env") -> str:
        found = installed(tmp_path / "site", direct_url)
        return install_line("mlx", here=read_installation(found, tmp_path / "site", prefix, PYTHON))

    return of


def test_a_checkout_is_named_again(line: Any, tmp_path: Path) -> None:
    url = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}

    assert line(url) == f"{PYTHON} -m pip install -e '{tmp_path}[mlx]'"


def test_a_directory_is_named_again(line: Any, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()

    assert line({"url": folder.as_uri(), "dir_info": {}}) == f"{PYTHON} -m pip install '{folder}[mlx]'"


def test_a_wheel_is_named_again(line: Any, tmp_path: Path) -> None:
    wheel = tmp_path / "cogstep-0.1.0-py3-none-any.whl"
    wheel.touch()

    assert line({"url": wheel.as_uri(), "archive_info": {}}) == f"{PYTHON} -m pip install '{wheel}[mlx]'"


def test_a_wheel_that_is_gone_needs_no_source(line: Any) -> None:
    """The packages of the extra are installed by themselves."""
    gone = line({"url": "file:///gone/cogstep.whl", "archive_info": {}})

    assert shlex.split(gone) == [
        *(PYTHON, "-m", "pip", "install"),
        *("mlx-lm<0.33,>=0.32", "mlx[cpu]<0.33,>=0.32.2; (platform_system == 'Linux')"),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, "cogstep[mlx]"),
        (
            {"url": "https://example.com/c.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "cogstep[mlx] @ git+https://example.com/c.git@abc",
        ),
        (
            {
                "url": "https://example.com/c.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"},
                "subdirectory": "python",
            },
            "cogstep[mlx] @ git+https://example.com/c.git@v1#subdirectory=python",
        ),
        (
            {"url": "https://me:secret@example.com/cogstep.whl", "archive_info": {}},
            "cogstep[mlx] @ https://example.com/cogstep.whl",
        ),
        (
            {"url": "file:///a/repository", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "cogstep[mlx] @ git+file:///a/repository@abc",
        ),
    ],
)
def test_what_came_from_elsewhere_is_fetched_again(line: Any, url: dict[str, Any] | None, expected: str) -> None:
    """From an index by the name alone; from a repository at the same commit; without a password."""
    assert line(url) == f"{PYTHON} -m pip install '{expected}'"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 3}', '{"url": "file:///x", "dir_info": []}', "null"])
def test_a_damaged_record_is_none(text: str, tmp_path: Path) -> None:
    """A file of another program must not keep an error from its reader."""
    found = installed(tmp_path, {})
    (tmp_path / "cogstep-0.1.0.dist-info/direct_url.json").write_text(text)

    assert "pip install" in install_line("mlx", here=read_installation(found, tmp_path, tmp_path, PYTHON))


def test_a_source_that_is_run_and_not_installed_is_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    here = read_installation(None, tmp_path, tmp_path / "env", PYTHON)

    assert (here.path, here.editable) == (str(tmp_path), True)


def test_pip_on_the_path_is_enough(line: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment that is activated, the line is short."""
    pip = tmp_path / "bin/pip"
    pip.parent.mkdir()
    pip.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(pip.parent))
    found = installed(tmp_path / "site", None)
    here = read_installation(found, tmp_path, tmp_path, str(tmp_path / "bin/python"))

    assert install_line("mlx", here=here) == "pip install 'cogstep[mlx]'"


def environment_of(manager: Manager, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write what a tool leaves in its environments."""
    prefix.mkdir()
    if manager == "uv":
        (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
        monkeypatch.setattr("runtime.models.installation.find_spec", lambda name: None)
    if manager == "uv tool":
        (prefix / "uv-receipt.toml").write_text('[tool]\nrequirements = [{ name = "cogstep", extras = ["mcp"] }]\n')
    if manager == "pipx":
        package = {"main_package": {"package": "cogstep", "package_or_url": "/a/checkout[mcp]"}}
        (prefix / "pipx_metadata.json").write_text(json.dumps(package))


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("pip", "{python} -m pip install -e '{path}[mlx]'"),
        ("uv", "uv pip install --python {python} -e '{path}[mlx]'"),
        ("uv tool", "uv tool install --editable '{path}[mcp,mlx]'"),
        ("pipx", "pipx install --force --editable '{path}[mcp,mlx]'"),
    ],
)
def test_each_tool_installs_into_its_own_environment(
    manager: Manager, expected: str, line: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``uv tool`` and pipx make the environment again, so they are told the extras that it has."""
    prefix = tmp_path / "env"
    environment_of(manager, prefix, monkeypatch)

    assert line({"url": tmp_path.as_uri(), "dir_info": {"editable": True}}, prefix) == expected.format(
        python=PYTHON, path=tmp_path
    )


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("pip", [PYTHON, "-m", "pip", "install"]),
        ("uv", ["uv", "pip", "install", "--python", PYTHON]),
        ("uv tool", ["uv", "pip", "install", "--python", PYTHON]),
        ("pipx", ["pipx", "inject", "cogstep"]),
    ],
)
def test_each_tool_adds_packages_if_the_source_is_gone(
    manager: Manager, expected: list[str], line: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "env"
    environment_of(manager, prefix, monkeypatch)

    assert shlex.split(line({"url": "file:///gone", "dir_info": {}}, prefix))[:-2] == expected


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("pip", "--prefer-binary --extra-index-url https://wheels.example/cpu"),
        ("uv", "--extra-index-url https://wheels.example/cpu"),
        ("uv tool", "--extra-index-url https://wheels.example/cpu"),
        ("pipx", "'--pip-args=--prefer-binary --extra-index-url https://wheels.example/cpu'"),
    ],
)
def test_an_index_of_wheels_is_passed_on(manager: Manager, expected: str) -> None:
    here = Installation(manager, "")
    line = install_line("llama", index="https://wheels.example/cpu", environment="A=1", here=here)

    assert line.startswith("A=1 ")
    assert line.endswith(f" 'cogstep[llama]' {expected}")


@given(name=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_a_shell_reads_any_path_as_one_word(name: str) -> None:
    """Also with quotes, spaces and line breaks in it."""
    path = f"/a/{name}"
    here = Installation("pip", PYTHON, path)

    assert shlex.split(install_line("mlx", here=here))[-1] == f"{path}[mlx]"


def test_this_installation_is_found() -> None:
    """The tests run on a checkout or an installed copy; both name what they are."""
    here = installation()

    assert install_line("mlx") == install_line("mlx", here=here)
    assert "[mlx]" in install_line("mlx") or here.requirements
