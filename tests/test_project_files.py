"""The files around the code: workflows, issue forms, citation, image, change log, site and the notes for agents."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

yaml: Any = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def load(path: str) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(path: Path) -> str:
    return path.name


def steps_of(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


# ---------------------------------------------------------------------------------------------------------- .github


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_workflow_runs_commands_that_exist(path: Path) -> None:
    """Each ``make`` target is one of the Makefile, and each script is a file."""
    commands = [step["run"] for step in steps_of(path) if "run" in step]
    targets = {target for command in commands for target in re.findall(r"\bmake ([a-z-]+)", command)}
    scripts = {script for command in commands for script in re.findall(r"python (\S+\.py)", command)}

    assert targets <= TARGETS
    assert [script for script in scripts if not (ROOT / script).exists()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_workflow_has_no_more_rights_than_it_needs(path: Path) -> None:
    """By default a job only reads; each action has a version, and each job ends."""
    workflow = yaml.safe_load(path.read_text("utf-8"))

    assert workflow["permissions"] == {"contents": "read"}
    assert all("@" in step["uses"] for step in steps_of(path) if "uses" in step)
    assert [name for name, job in workflow["jobs"].items() if "timeout-minutes" not in job and name != "publish"] == []


def test_the_tests_run_on_each_python_and_system() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]["test"]["strategy"][
        "matrix"
    ]

    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}


def test_a_release_is_published_without_a_token() -> None:
    """Trusted publishing: the job may ask for an identity, and names an environment; no secret is read."""
    path = ROOT / ".github/workflows/release.yml"
    job = yaml.safe_load(path.read_text("utf-8"))["jobs"]["publish"]

    assert job["permissions"] == {"id-token": "write"}
    assert job["environment"] == "pypi"
    assert "secrets." not in path.read_text("utf-8")


@pytest.mark.parametrize("path", FORMS, ids=name_of)
def test_an_issue_form_is_one(path: Path) -> None:
    """What GitHub demands: a name, a description, and a body whose fields have ids of their own and labels."""
    form = yaml.safe_load(path.read_text("utf-8"))
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]

    assert form["name"]
    assert form["description"]
    assert {field["type"] for field in form["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    assert len(ids) == len(set(ids)) > 0
    assert all(field["attributes"]["label"] for field in fields)


# --------------------------------------------------------------------------------------------------------- citation


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


# ------------------------------------------------------------------------------------------------------------ image


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_image_is_built_by_the_usual_rules() -> None:
    """A base with a version, no files left from apt, a user who is not root, and programs without a shell."""
    lines = instructions()
    bases = [arguments.split()[0] for name, arguments in lines if name == "FROM"]
    last = [name for name, _ in lines][[name for name, _ in lines].index("FROM", 1) :]

    assert all(":" in base and not base.endswith(":latest") for base in bases)
    assert {name for name, _ in lines} <= {
        "FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    for name, arguments in lines:
        if "apt-get install" in arguments:
            assert name == "RUN"
            assert "--no-install-recommends" in arguments
            assert "rm -rf /var/lib/apt/lists/*" in arguments
        if "pip install" in arguments:
            assert "--no-cache-dir" in arguments
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(arguments), list)
    assert last.index("USER") < last.index("ENTRYPOINT")
    assert dict(lines)["USER"] != "root"


def test_the_image_has_both_backends_from_files_that_exist() -> None:
    """The extras are those of the project; each copied path exists, and ``.dockerignore`` lets it in."""
    extras = {name for _, arguments in instructions() for name in re.findall(r"'\.\[([a-z,]+)\]'", arguments)}
    copied = [
        name
        for instruction, arguments in instructions()
        if instruction == "COPY" and not arguments.startswith("--from")
        for name in arguments.split()[:-1]
    ]
    kept_in = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()}

    (given,) = extras
    assert {"llama", "mlx"} <= set(given.split(",")) <= PROJECT["optional-dependencies"].keys()
    assert [name for name in copied if not (ROOT / name).exists() or name not in kept_in] == []


def docker_is_here() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        return subprocess.run([docker, "info"], capture_output=True, check=False, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it compiles llama.cpp
def test_the_image_answers() -> None:
    if not docker_is_here():
        pytest.skip("no docker daemon answers here")
    subprocess.run(["docker", "build", "--tag", "cogstep-test", "."], cwd=ROOT, check=True)
    command = ["docker", "run", "--rm", "cogstep-test", "run", "What is 17 * 23?"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "17 * 23 is 391.\n"


# ------------------------------------------------------------------------------------------------------- change log

collect = load("changelog.d/collect.py")


def test_the_fragments_of_the_next_release_are_right() -> None:
    collect.read_fragments(ROOT / "changelog.d")


def test_the_change_log_of_the_first_version_is_short() -> None:
    """Forty lines, and a mark below which releases come."""
    _, mark, releases = (ROOT / "CHANGELOG.md").read_text("utf-8").partition(collect.MARK)

    assert mark
    assert len(releases.split("## 0.1.0 - unreleased\n")[1].strip().splitlines()) <= 40


def test_a_release_takes_the_fragments_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One heading for each kind of change, the newest release first; the files are gone."""
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("How to write one.\n")
    (folder / "limits.fixed.md").write_text("`Limits` counts\nworkers ([agents](docs/guides/agents.md)).\n")
    (folder / "timeout.added.md").write_text("`Agent.run` accepts a `timeout`.\n")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{collect.MARK}\n## 0.1.0 - 2026-12-01\n")

    assert collect.main([], folder=folder) == 0
    assert capsys.readouterr().out.startswith("## Unreleased\n\n### Added\n\n- `Agent.run` accepts a `timeout`.\n")
    assert collect.main(["--release", "0.2.0", "--date", "2027-01-15"], folder=folder) == 0

    assert (tmp_path / "CHANGELOG.md").read_text() == (
        f"# Changelog\n\n{collect.MARK}\n## 0.2.0 - 2027-01-15\n\n### Added\n\n- `Agent.run` accepts a `timeout`.\n\n"
        "### Fixed\n\n- `Limits` counts workers ([agents](docs/guides/agents.md)).\n\n## 0.1.0 - 2026-12-01\n"
    )
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert collect.main(["--release", "0.3.0", "--date", "2027-02-15"], folder=folder) == 1


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("timeout.md", "It has one.", "SUBJECT.KIND.md"),
        ("timeout.better.md", "It has one.", "SUBJECT.KIND.md"),
        ("a.b.fixed.md", "It has one.", "SUBJECT.KIND.md"),
        ("a.fixed.md", "It has one", "full stop"),
        ("a.fixed.md", "It has one. And another.", "one sentence"),
        ("a.fixed.md", "word " * 31 + "end.", "at most 30"),
    ],
)
def test_a_wrong_fragment_is_named(
    name: str, text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)

    assert collect.main([], folder=tmp_path) == 1
    error = capsys.readouterr().err
    assert name in error
    assert problem in error


# ------------------------------------------------------------------------------------------------------------- site

site = load("docs/build_site.py")


def test_every_page_is_on_the_site_and_in_its_lists() -> None:
    """The navigation and ``llms.txt`` have each page of ``docs/`` once."""
    pages, sources = site.staged_pages()
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    def listed(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for inner in (entry.values() if isinstance(entry, dict) else entry) for page in listed(inner)]

    assert written <= pages.keys()
    assert sorted(listed(site.navigation(pages))) == sorted(pages)
    linked = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .", site.llms_text(pages["index.md"], pages), re.MULTILINE)
    assert sorted(linked) == sorted(pages.keys() - {"index.md"})
    assert all((ROOT / source).is_file() for source in sources)


def test_every_public_name_is_in_the_api_reference() -> None:
    names = (ROOT / "tests/public_names.txt").read_text("utf-8").split()
    documented = {name for room in site.rooms().values() for name in room}

    assert set(names) == documented
    assert {place for place, _ in site.api_pages()} == {f"{site.API}{room}.md" for room in [*site.rooms(), "index"]}


def test_links_that_leave_the_pages_lead_to_copies() -> None:
    """A link works in the repository and on the site; code is left as it is."""
    text = (
        "[a](tools.md#time) [b](../../CHANGELOG.md) [c](../../examples/rehearse.py) [d](https://example.org)\n"
        "```\n[e](../../CHANGELOG.md)\n```\n[f](nowhere.md)"
    )
    moved, sources = site.moved_links(text, "docs/guides/agents.md", "guides/agents.md")

    assert moved == (
        "[a](tools.md#time) [b](../project/changelog.md) [c](../source/examples/rehearse.py) [d](https://example.org)\n"
        "```\n[e](../../CHANGELOG.md)\n```\n[f](nowhere.md)"
    )
    assert sources == {"examples/rehearse.py"}


def test_llms_txt_follows_the_index() -> None:
    """Order and summaries are those of the index; a page that it lacks comes last, with its own first sentence."""
    index = "# House\n\nAll pages.\n\n- [Two](guides/two.md): the\n  second.\n- [One](guides/one.md): the first.\n"
    pages = {
        "index.md": index,
        "guides/one.md": "# One\n",
        "guides/three.md": "# The `third`\n\nA [page](one.md) of\nits own. And more.\n",
        "guides/two.md": "# Two\n",
    }

    assert site.llms_text(index, pages) == (
        f"# House\n\n> {site.DESCRIPTION}\n\n## Guides\n\n- [Two](guides/two.md): the second.\n"
        "- [One](guides/one.md): the first.\n- [The third](guides/three.md): A page of its own.\n"
    )


def test_the_site_is_strict_about_links() -> None:
    """A broken link or anchor is a warning, and a warning fails the build."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")

    assert re.search(r"^strict: true$", text, re.MULTILINE)
    assert '"--strict"' in (ROOT / "docs/build_site.py").read_text("utf-8")
    links = re.search(r"^  links: \{(.*)\}$", text, re.MULTILINE)
    assert links is not None
    assert {part.split(": ")[1] for part in links[1].strip().split(", ")} == {"warn"}


# ----------------------------------------------------------------------------------------------------------- agents


def test_the_notes_for_agents_name_what_exists() -> None:
    """Paths and ``make`` targets in AGENTS.md and the pull request's form."""
    for page in ("AGENTS.md", ".github/pull_request_template.md"):
        text = (ROOT / page).read_text("utf-8")
        paths = re.findall(r"\b(?:tests|docs|benchmarks|cognition|interpreters)/[\w./-]*\w", text)

        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= TARGETS
        assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readme_says_first_what_it_is() -> None:
    """The first screen, of 50 lines: a program, for whom, when not, and two commands."""
    screen = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:50])

    for part in ("```python", "make demo", "make test", "For you", "Not for you", "docs/start/comparison.md"):
        assert part in screen


def test_the_comparison_has_a_check_in_each_cell() -> None:
    """Each cell of the overview links to a section, and each row of a section has a command, a test or a figure."""
    text = (ROOT / "docs/start/comparison.md").read_text("utf-8")
    overview, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    rows = [line for line in overview.splitlines() if line.startswith("| [")]
    headings = {re.sub(r"[^a-z -]", "", section.splitlines()[0].lower()).replace(" ", "-") for section in sections}

    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 8
        assert all(re.fullmatch(r"\[[^\]]+\]\(#([a-z-]+)\)", cell) for cell in cells)
    assert set(re.findall(r"\(#([a-z-]+)\)", overview)) == headings
    for test in re.findall(r"`((?:tests|examples|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / test).exists(), test
