"""The text of Seatbelt profiles. A reader in this file reads it back. macOS is not needed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings, strategies as st

from interpreters.toolbox.shell import _seatbelt
from interpreters.toolbox.shell._profile import SandboxProfile

Expression = str | list["Expression"]


def expressions(text: str) -> list[Expression]:
    """Read expressions of Scheme: lists, words, strings (with a quote in front), and ``#"..."``."""
    stack: list[list[Expression]] = [[]]
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == ";":
            at = text.index("\n", at)
        elif letter == "(":
            stack.append([])
        elif letter == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif letter == '"':
            found = '"'
            while text[at] != '"':
                if text[at] == "\\":
                    at += 1
                    assert text[at] in '"\\', "an escape that this language may read differently"
                found += text[at]
                at += 1
            at += 1
            stack[-1].append(found)
        elif not letter.isspace():
            word = letter
            while text[at] not in '() \n;"':
                word += text[at]
                at += 1
            stack[-1].append(word)
    assert len(stack) == 1, "a list that does not end"
    return stack[0]


def verdict(rules: list[Expression], operation: str, path: str) -> bool:
    """Return whether a profile allows an operation on a file: the last rule that matches decides."""
    allowed = True
    for rule in rules:
        assert isinstance(rule, list)
        if rule[0] == "version":
            continue
        names = [one for one in rule[1:] if isinstance(one, str)]
        filters = [one for one in rule[1:] if isinstance(one, list)]
        covers = any(
            name == "default" or operation == name or (name.endswith("*") and operation.startswith(name[:-1]))
            for name in names
        )
        if covers and (not filters or any(_matches(one, path) for one in filters)):
            allowed = rule[0] == "allow"
    return allowed


def _matches(one: list[Expression], path: str) -> bool:
    kind, value = one[0], one[1]
    assert isinstance(value, str)
    value = value.removeprefix('"')
    if kind == "subpath":
        return path == value or path.startswith(value.rstrip("/") + "/")
    return kind == "literal" and path == value


READ, WRITE, RUN = "file-read-data", "file-write-create", "process-exec"

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."}
)
below = st.lists(names, min_size=1, max_size=3).map("/".join)


@st.composite
def profiles(draw: st.DrawFn) -> SandboxProfile:
    root = Path("/Users/me/work") / draw(below)
    inside = st.lists(below.map(lambda one: root / one), max_size=3).map(tuple)
    return SandboxProfile(
        root,
        readable=tuple(Path("/Users/me/library") / one for one in draw(st.lists(below, max_size=2))),
        hidden=draw(inside),
        read_only=draw(inside),
        programs=tuple(Path("/usr/bin") / one for one in draw(st.lists(names, max_size=2))),
        network=draw(st.booleans()),
    )


TEMPORARY = Path("/private/var/folders/x/T/cogstep")


def rules_of(profile: SandboxProfile) -> list[Expression]:
    return expressions(_seatbelt.profile_text(profile, TEMPORARY))


@given(st.text(st.characters(exclude_characters="\0")))
def test_a_quoted_string_is_read_back_as_it_was(text: str) -> None:
    assert expressions(_seatbelt.quote(text)) == ['"' + text]


@settings(max_examples=50)
@given(profiles())
def test_denied_paths_are_denied_and_all_else_of_the_root_can_be_used(profile: SandboxProfile) -> None:
    rules = rules_of(profile)

    for path in profile.hidden:
        for one in (path, path / "deep/er"):
            assert [verdict(rules, kind, str(one)) for kind in (READ, WRITE, RUN)] == [False, False, False]
    for path in profile.read_only:
        assert not verdict(rules, WRITE, str(path))
        assert not verdict(rules, WRITE, str(path / "deep"))
    for path in profile.programs:
        assert [verdict(rules, kind, str(path)) for kind in (READ, WRITE, RUN)] == [False, False, False]
    denied = (*profile.hidden, *profile.read_only)
    for one in (profile.root / "\1new", TEMPORARY / "new"):
        expected = not any(one.is_relative_to(path) for path in denied)
        assert [verdict(rules, kind, str(one)) for kind in (READ, WRITE, RUN)] == [expected] * 3
    for path in profile.readable:
        assert verdict(rules, READ, str(path / "book"))
        assert not verdict(rules, WRITE, str(path / "book"))


@settings(max_examples=50)
@given(profiles())
def test_nothing_is_allowed_after_the_denied_paths(profile: SandboxProfile) -> None:
    rules = [rule for rule in rules_of(profile) if isinstance(rule, list)]
    decisions = [rule[0] for rule in rules]
    strings = [{one[1] for one in rule[2:] if isinstance(one, list) and isinstance(one[1], str)} for rule in rules]
    last = max(index for index, decision in enumerate(decisions) if decision == "allow")
    for path in (*profile.hidden, *profile.read_only, *profile.programs):
        assert any('"' + str(path) in found for found in strings[last + 1 :])


@settings(max_examples=50)
@given(profiles())
def test_a_denied_path_can_not_be_moved_with_a_directory_above_it(profile: SandboxProfile) -> None:
    rules = rules_of(profile)
    for path in (*profile.hidden, *profile.read_only):
        for one in path.parents:
            assert not verdict(rules, "file-write-unlink", str(one))


def test_what_is_outside_is_denied_in_every_profile() -> None:
    profile = SandboxProfile(Path("/Users/me/work"), network=True)
    rules = rules_of(profile)

    outside = (
        "/Users/me/.ssh/id_ed25519", "/Users/me/work2", "/Users/me", "/private/tmp/x", "/private/etc/sudoers",
        "/Library/Keychains/x", "/opt/homebrew/etc/my.cnf", "/dev/disk0", "/Applications/Mail.app/x",
    )  # fmt: skip
    for path in outside:
        assert [verdict(rules, kind, path) for kind in (READ, WRITE, RUN)] == [False, False, False]
    for path in ("/usr/bin/git", "/System/Library/x", "/bin/sh"):
        assert [verdict(rules, kind, path) for kind in (READ, WRITE, RUN)] == [True, False, True]
    root_in_homebrew = SandboxProfile(Path("/opt/homebrew/var/me"))
    assert verdict(rules_of(root_in_homebrew), READ, "/opt/homebrew/var/me/x")


def test_the_network_is_allowed_only_if_the_profile_does() -> None:
    without = _seatbelt.profile_text(SandboxProfile(Path("/w")), TEMPORARY)
    allowed = _seatbelt.profile_text(SandboxProfile(Path("/w"), network=True), TEMPORARY)

    assert "network" not in without
    assert "socket" not in without
    assert [line for line in allowed.splitlines() if "network-" in line] == [
        '(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))',
        "(allow network-inbound (local ip))",
        "(allow network-bind (local ip))",
    ]


def test_the_words_are_the_program_and_the_text() -> None:
    profile = SandboxProfile(Path("/w"), hidden=(Path('/w/a "b"\n'),))

    assert _seatbelt.words(profile, TEMPORARY) == (
        "/usr/bin/sandbox-exec", "-p", _seatbelt.profile_text(profile, TEMPORARY),
    )  # fmt: skip


def test_the_text_of_a_whole_profile() -> None:
    profile = SandboxProfile(
        Path("/w"),
        readable=(Path("/r"),),
        hidden=(Path("/w/.env"),),
        read_only=(Path("/w/.git/hooks"),),
        programs=(Path("/usr/bin/curl"),),
    )
    text = _seatbelt.profile_text(profile, Path("/t"))
    properties = " ".join(f'(sysctl-name-prefix "{one}")' for one in _seatbelt.INFORMATION)
    system = " ".join(f'(subpath "{one}")' for one in (*_seatbelt.SYSTEM, "/r", "/w", "/t"))
    not_system = " ".join(f'(subpath "{one}")' for one in _seatbelt.NOT_SYSTEM)

    assert text.splitlines() == [
        "(version 1)",
        "(deny default)",
        "; the command's own processes",
        "(allow process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        f"(allow sysctl-read {properties})",
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") '
        '(global-name "com.apple.system.logger") (global-name "com.apple.trustd.agent"))',
        "(allow ipc-posix-sem)",
        "; files: names and sizes of those on the way to a path, contents of those that are listed",
        "(allow file-read-metadata)",
        '(allow file-read-data (literal "/"))',
        f"(allow file-read* {system})",
        f"(allow process-exec {system})",
        f"(deny file-read* process-exec {not_system})",
        '(allow file-read* process-exec (subpath "/r") (subpath "/w") (subpath "/t"))',
        '(allow file-write* (subpath "/w") (subpath "/t"))',
        '(deny file-write-setugid (subpath "/w") (subpath "/t"))',
        '(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") '
        '(literal "/dev/random") (literal "/dev/urandom") (literal "/dev/tty"))',
        '(allow file-read* file-write-data (regex #"^/dev/fd/[0-2]$"))',
        "; denied paths",
        '(deny file-write* (subpath "/w/.git/hooks"))',
        '(deny file-read-data file-read-xattr file-write* process-exec (subpath "/w/.env"))',
        '(deny file-read-data file-write* process-exec (subpath "/usr/bin/curl"))',
        '(deny file-write-unlink (literal "/w") (literal "/w/.git"))',
    ]
