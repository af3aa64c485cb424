"""Rules on paths hold for the file that a tool opens: by links, in searches, and while links are swapped."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cognition import Policy, Rule, ToolCall, ToolResult
from interpreters import Agent, AsyncAgent, MCPService, Tool, ToolContext, ToolError, fakes, replay
from interpreters.toolbox import (
    _path_sandbox as sandbox,
    _ripgrep as ripgrep,
    file_tools,
    search_tools,
    standard_tools,
)
from interpreters.toolbox.edit_session import EditSession
from interpreters.toolbox.root_directory import RootDirectory, SearchScope, Walk

SECRET = "S3CRET"
POLICY = Policy((Rule("deny", "*(secrets/**)"),))
RG = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


@pytest.fixture(params=["ripgrep", "Python"] if RG else ["Python"])
def scout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A test of searches runs without ripgrep, and with it where it is installed."""
    found = RG if request.param == "ripgrep" else None
    monkeypatch.setattr(ripgrep, "program", lambda _: found)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a denied file, and links to it."""
    root = tmp_path / "desk"
    (root / "secrets" / "sub").mkdir(parents=True)
    (root / "pub").mkdir()
    (root / "secrets" / "key").write_text(f"{SECRET}\n")
    (root / "secrets" / "sub" / "deep").write_text(f"{SECRET}\n")
    (root / "secrets" / ".hidden").write_text(f"{SECRET}\n")
    (root / "secrets" / "back").symlink_to("../pub/a")
    (root / "pub" / "a").write_text("S3 is open\n")
    (root / ".gitignore").write_text("*.ignored\n")
    for name, target in {
        "ln": "secrets",
        "lnabs": root / "secrets",
        "chain": "ln",
        "kl": "secrets/key",
        "klabs": root / "secrets" / "key",
        "kchain": "kl",
        "up": ".",
        "pub/out": "..",
        "pub/side": "../secrets",
        "pub/kl": "../secrets/key",
        "key.ignored": "secrets/key",
        ".key": "secrets/key",
        "dotted": "pub/../secrets/./key",
    }.items():
        (root / name).symlink_to(target)
    return root


class Desk:
    """The tools of a directory under a policy. An error, and a denial by the arguments alone, come back as text."""

    def __init__(self, root: Path, policy: Policy = POLICY, *, brief: bool = False) -> None:
        tools: tuple[Tool[..., Any], ...] = standard_tools(root) if brief else (*file_tools(root), *search_tools(root))
        self.tools = {tool.spec.name: tool for tool in tools}
        self.specs = {name: tool.spec for name, tool in self.tools.items()}
        self.policy = policy

    def context(self, name: str, arguments: dict[str, Any]) -> ToolContext[Any]:
        call = ToolCall("1", name, arguments)
        return ToolContext(None, session="s", access=self.policy.access_rules(call, self.specs))

    def __call__(self, name: str, /, **arguments: Any) -> str:
        verdict = self.policy.judge(ToolCall("1", name, arguments), self.specs[name])
        if verdict.action == "deny":
            return "Denied."
        try:
            return str(self.tools[name].call(arguments, self.context(name, arguments)))
        except ToolError as error:
            return f"Error: {error}"


def patch_of(old: str, new: str, line: str = SECRET) -> str:
    return f"--- a/{old}\n+++ b/{new}\n@@ -1 +1 @@\n-{line}\n+mine\n"


def new_file(path: str) -> str:
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+mine\n"


LINKED = (
    "ln/key", "lnabs/key", "chain/key", "kl", "klabs", "kchain", "dotted", "up/secrets/key", "up/up/ln/key",
    "pub/out/secrets/key", "pub/side/key", "pub/kl", "pub/side/../secrets/key", "ln/../secrets/key", "ln/sub/../key",
    "./ln//key", "ln/./key", "{root}/ln/key", "{root}/kl", "{root}/up/secrets/key", "../desk/ln/key", "ln/KEY",
    "LN/key", "Secrets/key", "secrets /key", "ln/nothing", "ln/nothing/at/all", "ln/key/below", "ln/back", "ln/back/x",
    "ln/sub/../../pub/b", "ln/..//ln/key", "ln", "pub/side", "secrets", ".key", "key.ignored",
)  # fmt: skip
"""Paths that lead to the denied folder, or look as if they did."""

Way = tuple[str, dict[str, Any]]
SEARCHES = ("Grep", "Glob")
WAYS: list[Way] = [
    *[("Read", {"path": path}) for path in LINKED],
    ("Read", {"path": "ln/key", "offset": 1, "limit": 1, "column": 2}),
    ("Read", {"path": "ln/key", "offset": 99}),
    *[("Grep", {"pattern": "S3", "path": path}) for path in LINKED],
    *[
        ("Grep", {"pattern": "S3", **more})
        for more in (
            {},
            {"path": "."},
            {"path": "{root}"},
            {"path": "up"},
            {"glob": "secrets/*"},
            {"glob": "key"},
            {"glob": "{{secrets,pub}}/*"},
            {"glob": "**/k?y"},
            {"path": "s?crets/*"},
            {"path": "[s]ecrets/key"},
            {"path": "*/key"},
            {"path": "**/k*"},
            {"path": "s*/sub/*"},
            {"path": "[st]ecrets"},
            {"path": "{root}/s*/*"},
            {"path": "?n/key"},
            {"path": "k[l]"},
            {"output_mode": "files_with_matches"},
            {"output_mode": "count"},
            {"hidden": True, "ignored": True},
            {"hidden": True, "ignored": True, "path": "**/.*"},
            {"context_before": 5, "context_after": 5},
            {"offset": 1},
            {"case_insensitive": True, "max_results": 1},
        )
    ],
    ("Grep", {"pattern": "(S3|x+)+CRET"}),
    ("Grep", {"pattern": "(S3|x+)+CRET", "path": "s?crets/k*"}),
    ("Grep", {"pattern": "^S3C", "output_mode": "count"}),
    *[
        ("Glob", {"pattern": pattern, "hidden": True, "ignored": True})
        for pattern in (
            "**", "**/*", "s*/*", "s?crets/key", "[s]ecrets/**", "*/key", "**/key", "**/k?y", "ln/*", "kl", "k*",
            "pub/*", "pub/kl", "up/**", "{root}/s*/*", "sec*/", "**/sub/**", "secrets*/sub/deep", "**/.hidden",
        )
    ],
    *[("Write", {"path": path, "content": "mine"}) for path in LINKED if path != "LN/key"],  # a new file, on Linux
    ("Write", {"path": "ln/new/folder/file", "content": "mine"}),
    *[("Edit", {"path": path, "old": "S3", "new": "mine"}) for path in ("ln/key", "kl", "up/secrets/key", "ln/no")],
    ("MultiEdit", {"path": "kl", "edits": [{"old": "S3", "new": "mine"}]}),
    *[("Patch", {"patch": patch_of(path, path)}) for path in ("ln/key", "kl", "up/secrets/key", "ln/no", "ln/back")],
    ("Patch", {"patch": patch_of("ln/key", "ln/key", "not that")}),
    ("Patch", {"patch": new_file("ln/new")}),
    ("Patch", {"patch": new_file("ln/key")}),
    ("Patch", {"patch": new_file("ln/new/deep/file")}),
    ("Patch", {"patch": patch_of("kl", "pub/stolen")}),
    ("Patch", {"patch": "diff --git a/kl b/pub/stolen\nrename from kl\nrename to pub/stolen\n"}),
    ("Patch", {"patch": "diff --git a/pub/a b/ln/key\nrename from pub/a\nrename to ln/key\n"}),
    ("Patch", {"patch": "diff --git a/ln/key b/pub/b\nrename from ln/key\nrename to pub/b\n"}),
    ("Patch", {"patch": f"--- a/kl\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n"}),
    ("Patch", {"patch": patch_of("pub/a", "pub/a", "S3 is open") + patch_of("ln/key", "ln/key")}),
]  # fmt: skip
BRIEF: list[Way] = [
    *[("Read", {"path": path}) for path in LINKED],
    *[("Grep", {"pattern": "S3", "path": path}) for path in ("kl", "ln", "s?crets/*", "*/key", ".", "{root}/s*/*")],
    *[("Glob", {"pattern": pattern}) for pattern in ("**", "s*/*", "ln/*", "kl", "{root}/s*/*")],
]


def in_place(value: Any, root: Path) -> Any:
    if isinstance(value, str):
        return value.replace("{root}", str(root)).replace("{{", "{").replace("}}", "}")
    return value


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def named(way: Way) -> str:
    return " ".join(map(str, [way[0], *way[1].values()]))


def check_way(desk: Desk, root: Path, way: Way) -> None:
    """Check that the answer has nothing of the file, and is the same whether the file or its folder exists."""
    name, arguments = way[0], {key: in_place(value, root) for key, value in way[1].items()}
    before = snapshot(root)

    first = desk(name, **arguments)
    assert snapshot(root) == before
    for gone in ("secrets/key", "secrets/back", "secrets/sub", "secrets"):
        path = root / gone
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        assert desk(name, **arguments) == first, f"without {gone}"
    assert SECRET not in first
    assert name != "Glob" or not any(word in first.splitlines() for word in ("secrets/key", "kl", "pub/kl", "key"))


@pytest.mark.parametrize("way", [way for way in WAYS if way[0] not in SEARCHES], ids=named)
def test_no_way_leads_to_a_denied_file(root: Path, way: Way) -> None:
    """Nothing is read and nothing changes."""
    check_way(Desk(root), root, way)


@pytest.mark.parametrize("way", [way for way in WAYS if way[0] in SEARCHES], ids=named)
@pytest.mark.usefixtures("scout")
def test_no_search_finds_a_denied_file(root: Path, way: Way) -> None:
    check_way(Desk(root), root, way)


@pytest.mark.parametrize("way", BRIEF, ids=named)
def test_no_way_of_the_brief_tools_leads_to_a_denied_file(root: Path, way: Way) -> None:
    check_way(Desk(root, brief=True), root, way)


def test_what_is_not_denied_is_reached_as_before(root: Path) -> None:
    desk = Desk(root)

    assert "S3 is open" in desk("Read", path="up/pub/a")
    assert desk("Grep", pattern="S3").splitlines()[0] == "pub/a:1: S3 is open"
    assert desk("Grep", pattern="S3", path="pub/a") == "pub/a:1: S3 is open"
    assert desk("Glob", pattern="pub/a") == "pub/a"
    assert desk("Write", path="pub/new/b", content="x\n") == "Made pub/new/b: 1 line."
    assert desk("Edit", path="pub/new/b", old="x", new="y").startswith("Edited pub/new/b: line 1;")
    assert desk("Read", path="pub/aa") == "Error: no such file: pub/aa; did you mean pub/a?"


def test_a_refusal_names_the_rule_and_the_file(root: Path) -> None:
    desk = Desk(root, Policy((Rule("deny", "*(secrets/**)"), Rule("ask", "Read(pub/*)"))))

    assert desk("Read", path="ln/key") == "Error: not permitted: the rule *(secrets/**) denies secrets/key"
    assert desk("Read", path="up/pub/a") == (
        "Error: not permitted: the rule Read(pub/*) asks about pub/a, which this call does not name; call again with "
        "this path"
    )
    assert "S3 is open" in desk("Read", path="pub/a")
    assert Desk(root, Policy((Rule("deny", "*(secrets/**)", "keys are yours"),)))("Read", path="kl") == (
        "Error: not permitted: keys are yours"
    )


@pytest.mark.usefixtures("scout")
def test_a_rule_on_read_holds_for_searches_too(root: Path) -> None:
    desk = Desk(root, Policy((Rule("deny", "Read(secrets/**)"), Rule("deny", "R*(pub/**)"))))

    assert desk("Grep", pattern="S3") == (
        "No lines match.\n[left out, if there are any: files denied by the rules Read(secrets/**), R*(pub/**)]"
    )
    assert desk("Grep", pattern="S3", path="secrets/key").startswith("Error: not permitted")


@pytest.mark.usefixtures("scout")
def test_a_search_notes_what_it_leaves_out(root: Path) -> None:
    """If its pattern may meet the rule, whether there is such a file or not."""
    rules = tuple(Rule("deny", f"*({name}/**)") for name in ("one", "two", "three", "four", "five"))
    policy = Policy((*rules, Rule("ask", "Grep(pub/**)")), allow_only=("Grep(**)", "Glob", "Read"))
    note = "[left out, if there are any: files denied by the rules *(one/**), *(two/**), *(three/**) and 2 more; files "
    note += "to ask about by the rule Grep(pub/**) (name the path of one); files not allowed by the rule Grep(**)]"

    assert Desk(root, policy)("Grep", pattern="S3 is", glob="*").splitlines() == ["No lines match.", note]
    assert Desk(root)("Grep", pattern="S3", path="pub") == "pub/a:1: S3 is open"
    assert Desk(root)("Grep", pattern="S3", glob="pub/*") == "pub/a:1: S3 is open"
    assert Desk(root)("Glob", pattern="pub/a*") == "pub/a"
    assert Desk(root)("Glob", pattern="s*/k*") == (
        "No files match.\n[left out, if there are any: files denied by the rule *(secrets/**)]"
    )


@pytest.mark.usefixtures("scout")
def test_only_what_is_allowed_is_searched(root: Path) -> None:
    desk = Desk(root, Policy(allow_only=("Glob(pub/*)", "Glob(up/*)", "Grep(.)", "Grep(pub/**)", "Read(kl)")))

    assert desk("Glob", pattern="pub/*").splitlines()[0] == "pub/a"
    assert "secrets" not in desk("Grep", pattern="S3", hidden=True)
    assert desk("Read", path="kl") == "Error: not permitted: only Read(kl) may be reached, and this is secrets/key"


def test_no_hint_names_a_denied_file(root: Path) -> None:
    (root / "pub" / "key.pem").write_text("x")
    (root / "pub" / "key.pen").write_text("x")
    policy = Policy((Rule("deny", "*(**/*.pem)"),))

    assert Desk(root, policy)("Read", path="pub/key.pe") == "Error: no such file: pub/key.pe; did you mean pub/key.pen?"
    (root / "pub" / "key.pen").unlink()
    for desk in (Desk(root, policy), Desk(root, policy, brief=True)):
        assert desk("Read", path="pub/key.pe") == "Error: no such file: pub/key.pe"


def test_what_was_read_before_a_rule_is_not_changed_after_it(root: Path) -> None:
    """The session remembers the file; the rule comes first."""
    desk = Desk(root, Policy())
    desk("Read", path="pub/a")
    desk.policy = Policy((Rule("deny", "*(pub/**)"),))

    for name, more in (("Write", {"content": "x"}), ("Edit", {"old": "S3", "new": "x"})):
        context = desk.context(name, {"path": "pub/other"})
        with pytest.raises(ToolError, match="not permitted"):
            desk.tools[name].call({"path": "pub/a", **more}, context)


def test_a_preview_shows_nothing_of_a_denied_file(root: Path) -> None:
    desk = Desk(root)
    for name, arguments in (
        ("Write", {"path": "ln/key", "content": "x"}),
        ("Edit", {"path": "kl", "old": "S3", "new": "x"}),
        ("Patch", {"patch": patch_of("ln/key", "ln/key")}),
    ):
        shown = desk.tools[name].preview(arguments, desk.context(name, arguments))
        assert shown is not None
        assert shown.lines == ()
        assert "this call would fail: " in shown.note
        assert "not permitted: the rule *(secrets/**) denies secrets/key" in shown.note


def test_a_rule_on_an_absolute_path_holds_by_every_name_of_the_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / "other").symlink_to(root)
    monkeypatch.setenv("HOME", str(root.parent))
    for place in (root, root.parent / "other"):
        for pattern in (f"{place}/secrets/**", f"{root}/secrets/**", "~/desk/secrets/**", "/**/key"):
            desk = Desk(place, Policy((Rule("deny", f"*({pattern})"),)))
            assert desk("Read", path="secrets/key").startswith("Error: not permitted: the rule"), pattern
            assert "secrets/key" not in desk("Grep", pattern="S3", output_mode="files_with_matches").splitlines()


def test_a_hard_link_is_another_real_path(root: Path) -> None:
    """No system tells which names a file has."""
    os.link(root / "secrets" / "key", root / "pub" / "second")

    assert SECRET in Desk(root)("Read", path="pub/second")


# ------------------------------------------------------------------------------------------------------ denied folders


def test_a_folder_without_a_file_that_may_be_reached_is_not_entered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []
    inner = Walk._inner

    def noting(self: Walk, directory: int, name: str, *more: Any) -> Any:
        entered.append(name)
        return inner(self, directory, name, *more)

    monkeypatch.setattr(Walk, "_inner", noting)
    Desk(root)("Glob", pattern="**", hidden=True, ignored=True)
    Desk(root, Policy((Rule("deny", "*(secrets/k*)"),)))("Glob", pattern="**")

    assert entered == ["pub", "pub", "secrets", "sub"]


def test_ripgrep_is_not_given_denied_folders(root: Path, scout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor folders in another case of letters. What it names is not believed."""
    given: list[list[str]] = []
    candidates = ripgrep.candidates

    def noting(*arguments: Any) -> list[str] | None:
        given.append(list(arguments[4]))
        found = candidates(*arguments)
        assert found is None or not any("secrets" in path for path in found)
        return None if found is None else [*found, "secrets/key", "secrets/sub/deep"]

    monkeypatch.setattr("interpreters.toolbox._search_tools.candidates", noting)
    found = Desk(root, Policy((Rule("deny", "*(SECRETS/**)"), Rule("deny", "*(x{1}/**)"))))("Grep", pattern="S3")

    assert found.splitlines()[0] == "pub/a:1: S3 is open"
    assert SECRET not in found
    assert given == [["/secrets/**"]]


@pytest.mark.usefixtures("scout")
def test_files_in_an_allowed_folder_with_a_denied_name_are_searched(root: Path) -> None:
    """As an ignore pattern, ``pub`` would be the folder with all of its files."""
    desk = Desk(root, Policy((Rule("deny", "*(pub)"), Rule("deny", "*(**/sub)"))))

    assert desk("Grep", pattern="S3", output_mode="files_with_matches").splitlines()[:3] == [
        "pub/a",
        "secrets/key",
        "secrets/sub/deep",
    ]


# ------------------------------------------------------------------------------------------------------- swapped links


@pytest.mark.parametrize("brief", [False, True])
def test_a_file_that_becomes_a_link_between_check_and_open_is_not_read(
    root: Path, brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is followed again, and refused."""
    opening = sandbox.SandboxedPath.open
    swapped: list[str] = []

    def swap(self: sandbox.SandboxedPath, *flags: int) -> int:
        if self.name == "a" and not swapped:
            swapped.append(self.name)
            (root / "pub" / "a").unlink()
            (root / "pub" / "a").symlink_to("../secrets/key")
        return opening(self, *flags)

    monkeypatch.setattr(sandbox.SandboxedPath, "open", swap)

    assert Desk(root, brief=brief)("Read", path="pub/a") == (
        "Error: not permitted: the rule *(secrets/**) denies secrets/key"
    )
    assert swapped


def test_a_folder_that_becomes_a_link_while_a_path_is_followed_is_not_entered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = sandbox._open
    swapped: list[str] = []

    def swap(name: str, *more: Any) -> int:
        if name == "pub" and not swapped:
            swapped.append(name)
            (root / "pub").rename(root / "away")
            (root / "pub").symlink_to("secrets")
        return opening(name, *more)

    monkeypatch.setattr(sandbox, "_open", swap)

    assert Desk(root)("Read", path="pub/key") == "Error: not permitted: the rule *(secrets/**) denies secrets/key"
    assert swapped


@pytest.mark.usefixtures("scout")
@pytest.mark.parametrize("pattern", ["S3", "(S3|x+)+"])
@pytest.mark.parametrize("path", ["pub/a", "pub", None])
def test_a_search_opens_no_link_that_is_swapped_in(
    root: Path, pattern: str, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of files and their opening."""
    from interpreters.toolbox import _search_tools as searching

    listing: Callable[..., Any] = searching._paths

    def swap(*arguments: Any) -> Any:
        paths, *more = listing(*arguments)
        paths = list(paths)
        assert "pub/a" in paths
        (root / "pub" / "a").unlink()
        (root / "pub" / "a").symlink_to("../secrets/key")
        return paths, *more

    monkeypatch.setattr(searching, "_paths", swap)

    assert Desk(root)("Grep", pattern=pattern, path=path).splitlines()[0] == "No lines match."


# ------------------------------------------------------------------------------------------------------------ all tools


def test_every_tool_that_opens_files_holds_to_the_rules_of_its_call(root: Path) -> None:
    """A tool that is added to the toolbox has to be added here; under this rule nothing may be reached."""
    nothing = Policy((Rule("deny", "*(**)"),))
    arguments: dict[str, dict[str, Any]] = {
        "Read": {"path": "pub/a"},
        "Write": {"path": "pub/a", "content": "x"},
        "Edit": {"path": "pub/a", "old": "S3", "new": "x"},
        "MultiEdit": {"path": "pub/a", "edits": [{"old": "S3", "new": "x"}]},
        "Patch": {"patch": patch_of("pub/a", "pub/a", "S3 is open")},
        "Glob": {"pattern": "pub/a"},
        "Grep": {"pattern": "S3"},
    }
    for desk in (Desk(root, nothing), Desk(root, nothing, brief=True)):
        for name, tool in desk.tools.items():
            if name in ("calculate", "current_time"):
                continue
            try:
                answer = str(tool.call(arguments[name], desk.context(name, arguments[name])))
            except ToolError as error:
                answer = str(error)
            assert "not permitted" in answer or answer.startswith(("No files match.\n[left", "No lines match.\n[left"))


def test_no_way_to_a_file_is_without_rules(root: Path) -> None:
    """The parameter is required, so a new tool can't forget it."""
    for open_file in (
        sandbox.PathSandbox(root).at,
        RootDirectory(root).at,
        RootDirectory(root).read,
        EditSession(root).file,
    ):
        with pytest.raises(TypeError, match=r"access|context"):
            open_file("secrets/key")  # type: ignore[call-arg]  # which is the test
    with pytest.raises(TypeError, match="access"):
        Walk(RootDirectory(root), ("**",), ToolContext(None), SearchScope())  # type: ignore[call-arg]  # as above


# ----------------------------------------------------------------------------------------------------------- end to end


def check_results(results: list[ToolResult]) -> None:
    read, grep = (result.content for result in results)
    assert read == "Error: not permitted: the rule *(secrets/**) denies secrets/key"
    assert grep.splitlines()[0] == "pub/a:1: S3 is open"
    assert SECRET not in grep


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_an_agent_reads_nothing_that_its_policy_denies(root: Path, kind: Any, tmp_path: Path) -> None:
    """With threads and with asyncio; its recording replays."""
    journal = tmp_path / "session.jsonl"
    model = fakes.ScriptedModel([fakes.call("Read", path="ln/key"), fakes.call("Grep", pattern="S3"), "I could not."])
    given: dict[str, Any] = {
        "tools": [*file_tools(root), *search_tools(root)],
        "policy": POLICY,
        "journal": journal,
        "fsync": "never",
    }

    async def run() -> Any:
        async with AsyncAgent(model, **given) as agent:
            return await agent.run("Find the key.")

    if kind is AsyncAgent:
        result = asyncio.run(run())
    else:
        with Agent(model, **given) as agent:
            result = agent.run("Find the key.")

    check_results([ToolResult(call.content, call.status) for call in result.calls])
    assert replay(journal).same
    assert SECRET not in journal.read_text()


def test_a_client_of_a_service_reads_nothing_that_its_policy_denies(root: Path) -> None:
    mcp = pytest.importorskip("mcp")
    service = MCPService([*file_tools(root), *search_tools(root)], policy=POLICY)

    async def main() -> list[str]:
        async with mcp.Client(service.server()) as client:
            answers = [
                await client.call_tool("Read", {"path": "ln/key"}),
                await client.call_tool("Grep", {"pattern": "S3"}),
            ]
            return [answer.content[0].text for answer in answers]

    read, grep = asyncio.run(main())
    assert "not permitted: the rule *(secrets/**) denies secrets/key" in read
    assert grep.splitlines()[0] == "pub/a:1: S3 is open"
    assert SECRET not in grep
