"""What a rule's pattern means, and what is said of one that means nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import AgentConfig, ConfigError, Layer, Policy, Rule, ToolCall, ToolSpec
from cognition.policy.rule_patterns import Pattern, PatternError, read_pattern
from cognition.policy.rules import Action


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write", Pattern("Write")),
        ("*", Pattern("", True)),
        ("mcp.files.*", Pattern("mcp.files.", True)),
        ("Bash(*)", Pattern("Bash")),
        ("Bash(:*)", Pattern("Bash")),
        ("mcp.*(*)", Pattern("mcp.", True)),
        ("Bash(*:*)", Pattern("Bash", False, "*", True)),
        ("Bash(git push:*)", Pattern("Bash", False, "git push", True)),
        ("Bash(git push :*)", Pattern("Bash", False, "git push", True)),
        ("Bash(git status)", Pattern("Bash", False, "git status")),
        ("*(.env)", Pattern("", True, ".env")),
        ("Write(cafe\u0301)", Pattern("Write", False, "café")),
        ("f(g(x))", Pattern("f", False, "g(x)")),
        ("f(a:b)", Pattern("f", False, "a:b")),
    ],
)
def test_a_pattern_is_a_name_and_an_argument(text: str, expected: Pattern) -> None:
    assert expected == read_pattern(text)


@pytest.mark.parametrize(
    ("text", "where", "right"),
    [
        ("", "at 0", "*"),
        ("(x)", "at 0", "*(x)"),
        ("a*b", "at 1", "a*"),
        ("**", "at 0", "*"),
        ("mcp.*.read", "at 4", "mcp.*"),
        ("a*b(x)", "at 1", "a*(x)"),
        ("Bash (git)", "at 4", "Bash(git)"),
        ("my tool", "at 2", "mytool"),
        ("é", "at 0", "*"),
        ("Bash:*", "at 4", "Bash"),
        ("Bash:git:*", "at 4", "Bash(git:*)"),
        ("Bash:*sum", "at 4", "Bash(*sum:*)"),
        (":git", "at 0", "*(git:*)"),
        ("Bash)", "at 4", "Bash"),
        (")", "at 0", "*"),
        ("Bash(git:*", "at 4", "Bash(git:*)"),
        ("Bash(", "at 4", "Bash"),
        ("Bash:git(", "at 8", "Bash(git:*)"),
        ("Bash(git:*) ", "at 11", "Bash(git:*)"),
        ("Bash(git:*)x", "at 11", "Bash(git:*)"),
        ("Bash()", "at 4", "Bash"),
        ("Bash(  )", "at 4", "Bash"),
        ("Bash( git:*)", "at 4", "Bash(git:*)"),
        ("Bash(git:* push)", "at 8", "Bash(git:*)"),
        ("Bash(git:*x)", "at 8", "Bash(git:*)"),
        ("Bash(:* push)", "at 5", "Bash"),
        ("Bash(:*x:*)", "at 5", "Bash"),
    ],
)
def test_a_mistake_is_pointed_at_with_the_nearest_right_form(text: str, where: str, right: str) -> None:
    with pytest.raises(ConfigError, match="rule pattern") as caught:
        Rule("deny", text)

    assert where in str(caught.value)
    assert str(caught.value).startswith(f"rule pattern {text!r}: ")
    assert str(caught.value).endswith(f"; write {right!r}")
    assert Rule("deny", right)


def test_a_pattern_of_absurd_length_is_refused() -> None:
    assert Rule("deny", "x" * 10_000)
    with pytest.raises(ConfigError) as caught:
        Rule("deny", "x" * 10_001)

    assert str(caught.value) == f"rule pattern '{'x' * 40}'...: it is longer than 10,000 characters; shorten it"


@given(st.text(st.sampled_from("aB.*(): /é-\u0301"), max_size=12) | st.text(max_size=8))
def test_what_is_refused_comes_with_a_pattern_that_is_not(text: str) -> None:
    right = text
    try:
        Rule("ask", text)
    except PatternError as mistake:
        right = mistake.right

    assert right == Rule("ask", right).tool


@pytest.mark.parametrize("ruled", [Policy, Layer])
def test_allow_only_has_patterns_too(ruled: type[Policy | Layer]) -> None:
    with pytest.raises(ConfigError, match="rule pattern"):
        ruled(allow_only=("Bash(",))


@pytest.mark.parametrize(
    "policy",
    [
        Policy((Rule("deny", "Bash(a && b)"),)),
        Policy((Rule("deny", "Write"), Rule("deny", "look(x)"), Rule("deny", "Bash(a && b)"))),
        Policy((Rule("deny", "*(echo $X:*)"),)),
        Policy(allow_only=("Bash(echo 'a)",)),
        Policy(layers=(Layer((Rule("allow", "Bash(a | b)"),)),)),
    ],
)
def test_a_rule_for_command_lines_is_for_one_command(policy: Policy) -> None:
    """Said where policy and tools meet; a judge that nobody asked before takes the words as spaces have them."""
    bash = ToolSpec("Bash", command="command")
    with pytest.raises(ConfigError, match="for one command"):
        AgentConfig(tools=(bash,), policy=policy)
    assert AgentConfig(tools=(ToolSpec("other"),), policy=Policy((Rule("deny", "Bash(a && b)"),)))
    assert AgentConfig(tools=(bash,), policy=Policy((Rule("deny", "Bash(> x)"), Rule("deny", "Bash"))))
    assert policy.judge(ToolCall("1", "Bash", {"command": "true"}), bash)


@pytest.mark.parametrize(
    ("pattern", "text", "forbids", "allows"),
    [
        ("look(git:*)", "git", True, True),
        ("look(git:*)", "git push", True, True),
        ("look(git:*)", "gitfoo", False, False),
        ("look(git:*)", "git-foo", True, False),
        ("look(git)", "git", True, True),
        ("look(git)", "GIT", True, False),
        ("look(git)", "git push", False, False),
        ("look(https://a.org:*)", "https://a.org/x", True, True),
        ("look(https://a.org:*)", "https://a.org.evil.com", True, False),
        ("look(https://a.org:*)", "https://a.org@evil.com", True, False),
        ("look(https://a.org/:*)", "https://a.org/x", True, True),
        ("look(https://*.a.org/*)", "https://b.a.org/x", True, True),
        ("look(https://*.a.org/*)", "https://a.org/x", False, False),
        ("look(a-b:*)", "a-b c", True, True),
        ("look(a-b:*)", "a-b-c", True, False),
        ("look(a-b:*)", "a-bc", False, False),
        ("look(a-b:*)", "a-bc-d", False, False),
        ("look(a-b:*)", "a-b_c", False, False),
        ("look(a*b:*)", "a b c", True, False),
        ("look(a*b:*)", "a c", False, False),
        ("look(a*b*c)", "a-b-b-c", True, True),
        ("look(a*b*c)", "abab", False, False),
        ("look(a*b*c*d)", "a-c-b-d", False, False),
        ("look(a*a)", "a", False, False),
        ("look(*x*:*)", "1x2 y", True, False),
        ("look(a?[b])", "a?[b]", True, True),
        ("look(a?[b])", "abb", False, False),
        ("look(é)", "e\u0301", True, True),
        ("*(secret:*)", "a secret", False, False),
    ],
)
def test_texts_are_matched_widely_where_forbidden_and_narrowly_where_allowed(
    pattern: str, text: str, forbids: bool, allows: bool
) -> None:
    call, tool = ToolCall("1", "look", {"about": text}), ToolSpec("look")

    assert ("deny" if forbids else "allow") == Policy((Rule("deny", pattern),)).judge(call, tool).action
    assert ("allow" if allows else "ask") == Policy((Rule("allow", pattern),), "ask").judge(call, tool).action


@pytest.mark.parametrize(
    ("pattern", "path", "forbids", "allows"),
    [
        ("Read(src/*)", "src/a", True, True),
        ("Read(src/*)", "src/a/b", False, False),
        ("Read(src/**)", "src/a/b", True, True),
        ("Read(src:*)", "src/a/b", True, True),
        ("Read(src/**:*)", "src/a/b", True, True),
        ("Read(src)", "src", True, True),
        ("Read(src)", "src/a", False, False),
        ("Read(src/)", "src", True, True),
        ("Read(./**)", "src/a", True, True),
        ("Read(**)", "a", True, True),
        ("Read(.)", ".", True, True),
        ("Read(.)", "a", False, False),
        ("Read(.:*)", "a", True, True),
        ("Read(a/**/b/**/c)", "a/b/x/b/y/c", True, True),
        ("Read(a/**/b/**/c)", "a/x/c", False, False),
        ("Read(**/a*/b)", "ax/c/ay/b", True, True),
        ("Read(**)", "../a", True, False),
        ("Read(**)", "/a", True, False),
        ("Read(*/a)", "../a", True, False),
        ("Read(../a)", "../a", True, True),
        ("Read(../**)", "../a", True, True),
        ("Read(../**)", "../../a", True, False),
        ("Read(..)", "../../a", False, False),
        ("Read(/a/**)", "/a/b", True, True),
        ("Read(/**)", "/a/b", True, True),
        ("Read(/)", "/", True, True),
        ("Read(/)", "/..", True, False),
        ("Read(~/a)", "~/a", True, True),
        ("Read(~/a)", "a", False, False),
        ("Read(/a)", "a", False, False),
        ("Read(a)", "b\\a", False, False),
        ("Read(b/a)", "b\\a", True, False),
        ("Read(c/b/a)", "c/b\\a", True, False),
        ("Read(C:/a)", "C:/a", True, True),
        ("Read(*/a)", "C:/a", True, False),
        ("Read(*/a)", "~/a", True, False),
        ("Read(*/a)", "~bob/a", True, False),
        ("Read(~*/a)", "~bob/a", True, False),
        ("Read(~bob/a)", "~bob/a", True, True),
        ("Read(/a/b)", "../a/b", True, False),
        ("Read(/a/b)", "~/a/b", False, False),
        ("Read(/a/b)", "/c/a/b", False, False),
        ("Read(a/b)", "~/a/b", True, False),
        ("Read(a/b)", "/c/a/b", True, False),
    ],
)
def test_paths_are_matched_widely_where_forbidden_and_narrowly_where_allowed(
    pattern: str, path: str, forbids: bool, allows: bool
) -> None:
    call, tool = ToolCall("1", "Read", {"path": path}), ToolSpec("Read", paths=("path",), read_only=True)

    assert ("deny" if forbids else "allow") == Policy((Rule("deny", pattern),)).judge(call, tool).action
    assert ("allow" if allows else "ask") == Policy((Rule("allow", pattern),), "ask").judge(call, tool).action


@pytest.mark.parametrize(
    ("pattern", "line", "forbids", "allows"),
    [
        ("Bash(ls)", "ls", "deny", True),
        ("Bash(ls)", "ls -l", "allow", False),
        ("Bash(ls)", "ls *", "ask", False),
        ("Bash(ls -l)", "ls -l", "deny", True),
        ("Bash(ls -l)", "ls $X", "ask", False),
        ("Bash(ls a)", "ls a *", "ask", False),
        ("Bash(ls a)", "ls a b", "allow", False),
        ("Bash(npm run *)", "npm run x", "deny", True),
        ("Bash(npm run *)", "npm run", "deny", True),
        ("Bash(npm run *)", "npm run x y", "deny", True),
        ("Bash(npm run *)", "npm test", "allow", False),
        ("Bash(npm *)", "npm run x", "deny", True),
        ("Bash(*:*)", "anything x", "deny", True),
        ("Bash(npm run te*)", "npm run test", "deny", True),
        ("Bash(*)", "anything", "deny", True),
        ("Bash(gi*)", "git", "deny", True),
        ("Bash(gi* push:*)", "git push", "deny", True),
        ("Bash(gi* push:*)", "ls push", "allow", False),
        ("Bash(tar -xzvf:*)", "tar -x -z -v -f a", "ask", False),
        ("Bash(tar -xzvf:*)", "tar -xzvf a", "deny", True),
        ("Bash(tar -xzf:*)", "tar -x -z -f a", "deny", False),
        ("Bash(rm -rf /*)", "rm -rf /", "deny", True),
        ("Bash(rm -r:*)", "rm --rec x", "deny", False),
        ("Bash(rm -r:*)", "rm --R x", "allow", False),
        ("Bash(rm x)", "rm -- x", "deny", False),
        ("Bash(rm x)", "rm -- y", "allow", False),
        ("Bash(rm -rf /)", "rm -fr //", "deny", False),
        ("Bash(rm -rf /)", "rm -fr /.", "deny", False),
        ("Bash(rm -rf a/b)", "rm -rf a/./b", "deny", False),
        ("Bash(rm -rf /)", "rm -rf x", "allow", False),
        ("Bash(rm -rf /)", "rm -rf", "allow", False),
        ("Bash(rm -)", "rm -", "deny", True),
        ("Bash(git push --force:*)", "git push -f", "deny", False),
        ("Bash(git push --force:*)", "git push --force=x", "deny", False),
        ("Bash(git push --force:*)", "git push --tags", "allow", False),
        ("Bash(git push --force:*)", "git push -- --force", "allow", False),
        ("Bash(git push:*)", "git push -- x", "deny", True),
        ("Bash(git push --force:*)", "git -C", "allow", False),
        ("Bash(git push --force:*)", "git push $X", "ask", False),
        ("Bash(> out)", "echo > out", "deny", False),
        ("Bash(>:*)", "echo >> out", "deny", False),
        ("Bash(<:*)", "cat < in", "deny", False),
        ("Bash(echo 'a b')", "echo 'a b'", "deny", True),
        ("Bash(echo 'a b')", "echo a b", "allow", False),
        ("Bash(echo '')", "echo ''", "deny", True),
        ("Bash(echo '')", "echo x", "allow", False),
        ("Bash(echo)", "env echo", "deny", True),
        ("Bash(env:*)", "env", "deny", False),
        ("Bash(sudo:*)", "sudo ls", "deny", False),
        ("Bash(command:*)", "command -v ls", "deny", True),
        ("Bash(./deploy.sh:*)", "bash deploy.sh", "deny", False),
        ("Bash(./deploy.sh:*)", "cd x && ./deploy.sh", "deny", False),
        ("Bash(./deploy.sh:*)", "cd . && ./deploy.sh", "deny", True),
        ("Bash(./deploy.sh:*)", "cd x && cd .. && ./deploy.sh", "deny", True),
        ("Bash(./deploy.sh:*)", "cd x && ../deploy.sh", "deny", False),
        ("Bash(./deploy.sh:*)", "cd x; cd .; ./deploy.sh", "deny", False),
        ("Bash(./deploy.sh:*)", "cd x && /deploy.sh", "deny", False),
        ("Bash(x/deploy.sh:*)", "cd x && ./deploy.sh a", "deny", True),
        ("Bash(x/deploy.sh:*)", "cd ../x && ./deploy.sh a", "deny", False),
        ("Bash(python a.py)", "cd x && python a.py", "deny", False),
        ("Bash(python x/a.py)", "cd x && python a.py", "deny", True),
        ("Bash(python x/a.py)", "cd y && python a.py", "allow", False),
        ("Bash(cat x/a)", "cd x && cat a", "deny", False),
        ("Bash(cat x/a)", "cd x; cat a", "ask", False),
        ("Bash(cat x/a)", "cd $X && cat a", "ask", False),
        ("Bash(cat x/a)", "cd y && cat a", "allow", False),
        ("Bash(cat x/a)", "cd x && cat -n a b", "allow", False),
        ("Bash(cat x/a b)", "cd x && cat a b", "deny", False),
        ("Bash(cat x/*)", "cd y && cat ../x/a", "deny", False),
        ("Bash(> x/*)", "cd x && echo > a", "deny", False),
        ("Bash(> x/*)", "cd x && echo > /a", "allow", False),
        ("Bash(> x/*)", "cd y && echo > ../../x/a", "ask", False),
        ("Bash(make x/a:*)", "cd x && make -j 4 a", "ask", False),
        ("Bash(> /x/*)", "cd y; echo > a", "allow", False),
        ("Bash(> ~/x)", "cd y; echo > x", "allow", False),
        ("Bash(> /x/*)", "cd /; echo > a", "ask", False),
        ("Bash(git push:*)", "cd a; git pull", "allow", False),
        ("Bash(deploy:*)", "sh -e /opt/deploy x", "deny", False),
        ("Bash(bash deploy.sh:*)", "bash deploy.sh x", "deny", True),
        ("Bash(npm publish:*)", "npm --registry http://x publish", "ask", False),
        ("Bash(npm publish:*)", "npm --silent publish", "deny", False),
        ("Bash(npm publish:*)", "npm --registry=x y publish", "allow", False),
        ("Bash(npm publish:*)", "npm x publish", "ask", False),
        ("Bash(npm publish:*)", "npm --registry x $Y", "ask", False),
        ("Bash(make publish:*)", "make -j 4 publish", "ask", False),
        ("Bash(make publish)", "make publish -j 4", "allow", False),
        ("Bash(make publish)", "make -j 4 publish", "allow", False),
        ("Bash(make -j publish)", "make publish -j 4", "ask", False),
        ("Bash(make -j publish)", "make publish -j 4 x", "allow", False),
        ("Bash(make -j '')", "make -j 4 ''", "ask", False),
        ("Bash(kubectl delete pod:*)", "kubectl --as x delete -v 9 pod y", "ask", False),
        ("Bash(kubectl delete pod)", "kubectl --as x delete pod y", "allow", False),
        ("Bash(npm publish:*)", "npm --registry http://x view publish", "allow", False),
    ],
)
def test_commands_are_matched_widely_where_forbidden_and_narrowly_where_allowed(
    pattern: str, line: str, forbids: str, allows: bool
) -> None:
    call, tool = ToolCall("1", "Bash", {"command": line}), ToolSpec("Bash", command="command")

    assert forbids == Policy((Rule("deny", pattern),)).judge(call, tool).action
    assert ("allow" if allows else "ask") == Policy((Rule("allow", pattern),), "ask").judge(call, tool).action


@pytest.mark.parametrize(
    ("pattern", "line", "covered"),
    [
        ("sed -n:*", "sed -n 1p f", True),
        ("sed -n:*", "sed -n -i 1d f", False),
        ("sed -n:*", "sed -n 1p f -i", False),
        ("sed -n:*", "sed -n -s -i.bak p f", False),
        ("sed -n:*", "sed -n --in-place p f", False),
        ("sed -n:*", "gsed -n 1p f", False),
        ("sed:*", "sed -ni 1d f", False),
        ("sed -i:*", "sed -i 1d f", True),
        ("find . -name:*", "find . -name x -print", True),
        ("find . -name:*", "find . -name x -delete", False),
        ("find . -name:*", "find . -name x -fprint f", False),
        ("find . -name:*", "find . -name x -fprint0 f", False),
        ("find . -name:*", "find . -name x -fprintf f %p", False),
        ("find . -name:*", "find . -name x -fls f", False),
        ("find . -delete:*", "find . -delete", True),
        ("git diff:*", "git diff --stat", True),
        ("git diff:*", "git diff --output=f", False),
        ("git log:*", "git log --output f", False),
        ("git show:*", "git show --outp=f", False),
        ("git grep:*", "git grep -n x", True),
        ("git grep:*", "git grep -nOcat x", False),
        ("awk:*", "awk '{print $1}' f", True),
        ("awk:*", "awk 'BEGIN{print > \"f\"}'", False),
        ("sort:*", "sort -u f", True),
        ("sort:*", "sort -o f f", False),
        ("sort:*", "sort -uo f f", False),
        ("sort:*", "sort --output=f f", False),
        ("uniq:*", "uniq -c f", True),
        ("uniq:*", "uniq -c f g", False),
        ("uniq f g", "uniq f g", True),
        ("uniq:*", "uniq f g", False),
        ("uniq:*", "xargs uniq f", False),
        ("uniq:*", "uniq $X", False),
        ("uniq:*", "true | xargs uniq f", False),
        ("tree:*", "true | xargs tree", False),
        ("tree:*", "xargs tree", False),
        ("ls:*", "xargs ls", True),
        ("tar tf:*", "tar tf x.tar", True),
        ("tar tf:*", "tar tf x.tar --index-file=f", False),
        ("tree:*", "tree -L 2", True),
        ("tree:*", "tree -o f", False),
        ("uv:*", "uv sync", True),
        ("uv:*", "uv run pytest", False),
        ("uv run:*", "uv run pytest", True),
        ("docker:*", "docker exec x ls", False),
        ("docker exec:*", "docker exec x ls", True),
        ("node --test:*", "node --test test/a.js", True),
        ("node --test:*", "node --test --import DATA:text/javascript,x f", False),
        ("node --test:*", "node --test --test-reporter=./x.js f", False),
        ("node --test:*", "node --test --test-reporter=spec f", True),
    ],
)
@pytest.mark.behaviour("B10")
def test_an_allowance_names_the_words_by_which_a_program_writes_or_runs_others(
    pattern: str, line: str, covered: bool
) -> None:
    call, tool = ToolCall("1", "Bash", {"command": line}), ToolSpec("Bash", command="command")

    assert ("allow" if covered else "ask") == Policy((Rule("allow", f"Bash({pattern})"),), "ask").judge(
        call, tool
    ).action


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("true", "allow"),
        ("ls | head", "allow"),
        ("cat secrets/key", "allow"),  # a rule on commands: the tools that open files apply it to paths
        ("secrets/run", "deny"),
        ("./secrets/run", "deny"),
        ("cd secrets && ./run", "deny"),
        ("secrets/a/run x", "allow"),
        ("unknown secrets/run", "ask"),
        ("unknown secret/run", "allow"),
    ],
)
def test_a_pattern_of_paths_is_about_the_programs_in_that_folder(line: str, action: str) -> None:
    call, tool = ToolCall("1", "Bash", {"command": line}), ToolSpec("Bash", command="command")

    assert action == Policy((Rule("deny", "*(secrets/**)"),)).judge(call, tool).action


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("secrets/**", "secrets/\n--- b"),
        ("secrets/**", "secrets/x\n--- b/../key"),
        ("x*", "x\n+++ y"),
        ("secret.*", "secret."),
        (".env.*", ".env."),
        ("e*.txt", "e\u0301x.txt"),
        ("\u00e9*.txt", "e\u0301x.txt"),
        ("a.*/b", "a./b"),
        ("note *", "note "),
        ("secret.*", "~/secret."),
        ("\u00e9*.txt", "../e\u0301x.txt"),
    ],
)
@pytest.mark.behaviour("B10")
def test_a_path_is_denied_under_each_name_that_a_system_may_give_it(pattern: str, path: str) -> None:
    call, tool = ToolCall("1", "Read", {"path": path}), ToolSpec("Read", paths=("path",))

    assert Policy((Rule("deny", f"*({pattern})"),)).judge(call, tool).action == "deny"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("e*.txt", "sub/e\u0301x.txt"),
        ("secret.*", "sub/secret."),
        ("x.*", "~/secret."),
        ("x", "../e\u0301"),
    ],
)
def test_no_other_path_is_denied_for_its_spelling(pattern: str, path: str) -> None:
    call, tool = ToolCall("1", "Read", {"path": path}), ToolSpec("Read", paths=("path",))

    assert Policy((Rule("deny", f"*({pattern})"),)).judge(call, tool).action == "allow"


@pytest.mark.parametrize(
    ("action", "address"),
    [
        ("allow", "https://a.example.com/x"),
        ("allow", "https://a.b.example.com/x/y?z"),
        ("ask", "https://evil.com/x.example.com/y"),
        ("ask", "https://evil.com?.example.com/"),
        ("ask", "https://evil.com#.example.com/"),
        ("ask", "https://evil.com\\.example.com/"),
        ("ask", "https://u:p@evil.com/.example.com/"),
        ("ask", "https://evil.com@.example.com/"),
        ("ask", "https://evil.com/\n.example.com/"),
        ("ask", "https://evil.com\t.example.com/"),
        ("ask", "http://a.example.com/x"),
    ],
)
def test_a_star_in_an_allowed_host_stays_within_the_host(action: str, address: str) -> None:
    policy = Policy((Rule("allow", "fetch(https://*.example.com/*)"),), default="ask")

    assert policy.judge(ToolCall("1", "fetch", {"url": address}), ToolSpec("fetch")).action == action


@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("Bash(A=1 curl:*)", "Bash(curl:*)"),
        ("Bash(A=1 B=2 git push)", "Bash(git push:*)"),
        ("Bash(A=1)", "Bash(env:*)"),
    ],
)
def test_a_rule_that_begins_with_a_variable_is_refused_for_it_would_never_match(pattern: str, right: str) -> None:
    policy = Policy((Rule("deny", pattern),))

    with pytest.raises(ConfigError, match="a variable is no part of the command") as caught:
        policy.check([ToolSpec("Bash", command="command")])
    assert str(caught.value).endswith(f"; write '{right}'")
    policy.check([ToolSpec("look")])


@pytest.mark.parametrize("action", ["deny", "ask"])
@pytest.mark.parametrize("whole", ["pay", "p*", "*"])
def test_a_rule_for_all_calls_holds_beside_one_for_an_argument(action: Action, whole: str) -> None:
    """Also where rules of that name have arguments only."""
    policy = Policy((Rule("deny", "pay(Eve)"), Rule(action, whole), Rule("deny", "p*(Mallory)")))
    assert policy.judge(ToolCall("1", "pay", {"to": "Bob"}), ToolSpec("pay")).action == action


@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("Bash(>> ~/.bashrc)", "write 'Bash(> ~/.bashrc)'"),
        ("Bash(2> x)", "write 'Bash(> x)'"),
        ("Bash(>>:*)", "write 'Bash(>:*)'"),
        ("Bash(0<& x)", "write 'Bash(< x)'"),
        ("Bash(ls # x)", "write 'Bash(ls)'"),
        ("Bash(ls # x:*)", "write 'Bash(ls:*)'"),
        ("Bash(ls -l a # x)", "write 'Bash(ls -l a)'"),
        ("Bash(ls '' # x)", "write 'Bash(ls *)'"),
        ("Bash(! ls)", "shell's grammar and no command; write a rule for the command behind it"),
        ("Bash(if:*)", "behind it"),
        ("Bash(for x)", "behind it"),
    ],
)
def test_a_rule_that_its_own_words_would_not_meet_is_refused(pattern: str, right: str) -> None:
    for policy in (Policy((Rule("deny", pattern),)), Policy(allow_only=(pattern,))):
        with pytest.raises(ConfigError) as caught:
            policy.check([ToolSpec("Bash", command="command")])
        assert right in str(caught.value)
        policy.check([ToolSpec("look")])
