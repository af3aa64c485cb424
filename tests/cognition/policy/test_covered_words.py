"""What an allowance of a program covers of its words, and what a prohibition finds in other spellings."""

from __future__ import annotations

import pytest

from cognition import Policy, Rule, ToolCall
from cognition.policy import Action, _shell, proposed_rules
from tests.cognition.naming import case_name
from tests.cognition.policy.hostile import BASH


def judged(policy: Policy, line: str) -> Action:
    return policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action


UNCOVERED: tuple[tuple[str, str], ...] = (
    *(("sort:*", line) for line in ("sort *", "sort -*", "sort ?*", "sort [-a]*", "sort -o b a", "sort --outp=b a")),
    *((f"git {name}:*", f"git {name} *") for name in ("diff", "log", "show", "grep", "fetch")),
    ("git archive:*", "git archive -o new HEAD"),
    ("git archive:*", "git archive HEAD --format=x"),
    ("git clone:*", "git clone -c core.sshCommand='touch new;' ssh://h/x d"),
    ("git clone:*", "git clone -ccore.sshCommand=x ssh://h/x d"),
    ("git -c:*", "git -c core.sshCommand=x fetch"),
    ("git commit:*", "git commit -m $(cat message)"),
    ("git commit:*", 'git commit -F "$(cat name)"'),
    ("npm test:*", "npm test *"),
    ("npm test:*", "npm test */*"),
    ("make test:*", "make test *"),
    ("make:*", "make test -f evil.mk"),
    ("make:*", "make -kf evil.mk"),
    ("make:*", "make --eval=x"),
    ("tar tf:*", "tar tf a.tar *"),
    ("./scripts/*:*", "./scripts/../evil"),
    ("./scripts/*:*", "./scripts/../../../usr/bin/env"),
    ("./bin/*", "./bin/../evil"),
    ("cat src/*", "cat src/../../etc/passwd"),
    ("> out/*", "echo x > out/../new"),
    ("git * status", "git --git-dir=evil/.git status"),
    ("./run_tests:*", "cd link && ../run_tests"),
    ("cat x/*", "cd y && cat ../x/a"),
    ("./K_tests:*", "./\u212a_tests"),
    ("./\u00e9:*", "./e\u0301"),
    ("shuf:*", "shuf -o new a"),
    ("shuf:*", "shuf -eo new a"),
    *((f"{name}:*", line) for name, line in (("xxd", "xxd a new"), ("uniq", "uniq - new"), ("ptx", "ptx -G a new"))),
    ("iconv:*", "iconv -o new a"),
    ("file:*", "file -C -m m"),
    ("openssl rand:*", "openssl rand -out new 5"),
    ("awk:*", "awk -f evil a"),
    ("awk:*", "awk --file=evil a"),
    ("cc:*", "cc @f a.c"),
    ("gcc:*", "gcc -B./ a.c"),
    ("clang:*", "clang -fplugin=./x.so a.c"),
    ("prettier:*", "prettier --check --write ."),
    ("eslint:*", "eslint --fix ."),
    ("pytest:*", "pytest --basetemp=src"),
    ("mypy:*", "mypy --python-executable=./evil a.py"),
    ("go test:*", "go test -o out ./..."),
    ("nm:*", "nm --plugin=./x.so a"),
    ("ruff:*", "ruff format a.py"),
    ("uniq a * b:*", "uniq a x b $X"),
    ("npx:*", "npx $X"),
)
COVERED: tuple[tuple[str, str], ...] = (
    ("sort:*", "sort -rn a b"),
    ("cat:*", "cat *"),
    ("grep:*", "grep -rn x *"),
    ("git add:*", "git add *"),
    ("git diff:*", "git diff --stat HEAD~1"),
    ("git archive -o:*", "git archive -o new HEAD"),
    ("make:*", "make -j4 test"),
    ("make -f a.mk:*", "make -f a.mk test"),
    ("./scripts/*:*", "./scripts/sub/x -v"),
    ("../shared/*:*", "../shared/x"),
    ("> out/*", "echo x > out/a/b"),
    ("git * status", "git x status"),
    ("./run_tests:*", "cd . && ./run_tests"),
    ("./\u00e9:*", "./\u00e9"),
    ("xxd:*", "xxd a"),
    ("gcc:*", "gcc -O2 -DB=1 a.c -o a"),
    ("pytest:*", "pytest -x tests"),
    ("go test:*", "go test -run X ./..."),
    ("ruff check:*", "ruff check src"),
)


@pytest.mark.parametrize(("rule", "line"), UNCOVERED, ids=case_name)
@pytest.mark.behaviour("B10")
def test_no_word_that_writes_or_runs_is_covered_unless_named(rule: str, line: str) -> None:
    allowed = (Rule("allow", f"Bash({rule})"), Rule("allow", "Bash(cat message)"), Rule("allow", "Bash(echo x)"))

    assert (
        judged(Policy((*allowed, Rule("allow", "Bash(cat name)"), Rule("allow", "Bash(head a)")), "ask"), line) == "ask"
    )
    assert judged(Policy((Rule("allow", f"Bash({rule})"),), "deny"), line) == "deny"


@pytest.mark.parametrize(("rule", "line"), COVERED, ids=case_name)
def test_its_other_words_are(rule: str, line: str) -> None:
    allowed = (Rule("allow", f"Bash({rule})"), Rule("allow", "Bash(echo x)"))

    assert judged(Policy(allowed, "ask"), line) == "allow"


def test_a_message_in_quotes_is_one_word() -> None:
    """Agents write their messages so."""
    line = "git commit -m \"$(cat <<'EOF'\nMend it\nEOF\n)\""
    allowed = (Rule("allow", "Bash(git commit:*)"), Rule("allow", "Bash(cat:*)"))

    assert judged(Policy(allowed, "ask"), line) == "allow"


FOUND: tuple[tuple[str, str, Action], ...] = (
    ("git reset --hard:*", "git reset --har HEAD~1", "deny"),
    ("git branch --delete:*", "git branch --del -f q", "deny"),
    ("git branch --delete:*", "git branch --d q", "ask"),
    ("git push --force-with-lease:*", "git push --force-with", "ask"),
    ("git commit --no-verify:*", "git commit --no", "ask"),
    ("git commit --no-verify", "git commit --no-ver", "deny"),
    ("sort --output:*", "sort --out=x", "deny"),
    ("sort --output:*", "sort --reverse", "allow"),
    ("npm publish:*", "npm publ", "deny"),
    ("npm install:*", "npm i x", "deny"),
    ("npm i:*", "npm install x", "deny"),
    ("npm run deploy:*", "npm run-script deploy", "deny"),
    ("npm run deploy:*", "npm run build", "allow"),
    ("npm publish:*", "npm p", "allow"),
    ("./scripts/*:*", "/srv/app/scripts/x", "deny"),
    ("./scripts/*:*", "sh /srv/app/scripts/x", "deny"),
    ("./scripts/*:*", "../app/scripts/x", "deny"),
    ("./scripts/*:*", "~/app/scripts/x", "deny"),
    ("./scripts/*:*", "./other/x", "allow"),
    ("cat .env:*", "cd sub && cat ../.env", "deny"),
    ("cat .env:*", "cat /srv/app/.env", "ask"),
    ("cat .env:*", "cat ../app/.env", "ask"),
    ("cat .env:*", "cat /srv/app/.environment", "allow"),
    ("git checkout main:*", "git checkout /x/main", "allow"),
    ("curl:*", "echo x | git commit --allow-empty", "ask"),
    ("curl:*", "echo x | git difftool -y", "ask"),
    ("curl:*", "echo x | coverage run -m code", "ask"),
    ("curl:*", "echo x | poetry shell", "ask"),
    ("curl:*", "echo x | docker load", "allow"),
    ("curl:*", "echo x | gcc -c a.c", "allow"),
    ("curl:*", "echo $((a[0]))", "ask"),
    ("curl:*", "x=curlx; make CC=${x%x}", "ask"),
    ("curl:*", "make CC=${X:-curl}", "ask"),
    ("curl:*", "set -a; CC=curl; make", "ask"),
    ("curl:*", "IFS=x; make", "ask"),
    ("curl:*", "IFS=x make read", "ask"),
    ("curl:*", "test -v $X", "ask"),
    ("curl:*", 'test "$X" "$Y"', "allow"),
    ("curl:*", "test $(cat f)", "ask"),
    ("curl:*", '[ ! "$(cat f)" ]', "allow"),
    ("curl:*", '[ "$(cat f)" = a ]', "allow"),
    ("curl:*", '[ ! "$(cat f)" = a ]', "allow"),
    ("curl:*", 'x=$(cat f); wait "$x"', "allow"),
    ("curl:*", 'x=$(cat f); wait "$x" "$x"', "ask"),
    ("curl:*", "wait $!", "allow"),
    ("curl:*", 'x=-v; printf "$x" "$Y"', "ask"),
    ("curl:*", 'x=a; printf "%s" "$x"', "allow"),
    ("curl:*", 'printf "$X" "$Y"', "allow"),
    *(("curl:*", f"curl x; {name}", "deny") for name in ("uv", "npm", "pnpm", "yarn", "bundle", "poetry", "npx")),
    *(("curl:*", f"{name}", "allow") for name in ("uv", "npm", "yarn", "poetry")),
    ("curl:*", "npx $X", "ask"),
    ("curl:*", "uv run $X", "ask"),
)


@pytest.mark.parametrize(("rule", "line", "action"), FOUND, ids=case_name)
@pytest.mark.behaviour("B10")
def test_a_prohibition_finds_other_spellings(rule: str, line: str, action: Action) -> None:
    assert judged(Policy((Rule("deny", f"Bash({rule})"),)), line) == action


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("git status -s", ("Bash(git status -s)", "Bash(git status:*)", "Bash")),
        ("docker compose up -d", ("Bash(docker compose up -d)", "Bash(docker compose up:*)", "Bash")),
        ("docker compose exec web x", ("Bash(docker compose exec web x)", "Bash")),
        ("git rebase main", ("Bash(git rebase main)", "Bash")),
        ("git clone a b", ("Bash(git clone a b)", "Bash")),
        ("poetry shell", ("Bash(poetry shell)", "Bash")),
        ("shuf a", ("Bash(shuf a)", "Bash")),
        ("openssl version", ("Bash(openssl version)", "Bash")),
    ],
    ids=case_name,
)
def test_no_rule_is_offered_for_a_command_that_reaches_far(line: str, offered: tuple[str, ...]) -> None:
    assert proposed_rules(ToolCall("1", "Bash", {"command": line}), BASH) == offered


@pytest.mark.parametrize("rule", ["Bash(npm:*)", "Bash(yarn)", "Bash(uv)"])
def test_a_rule_may_name_a_program_that_runs_others_alone(rule: str) -> None:
    assert judged(Policy((Rule("deny", rule),)), rule[5:-1].removesuffix(":*")) == "deny"


def test_a_mistake_in_the_reader_hides_nothing_that_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, words: object) -> None:
        if name == "make":
            raise IndexError

    monkeypatch.setattr(_shell, "check_arguments", fail)

    assert judged(Policy((Rule("deny", "Bash(curl:*)"),)), "curl x; make") == "deny"
    assert judged(Policy((Rule("deny", "Bash(curl:*)"),)), "make; curl x") == "ask"
    assert judged(Policy((Rule("deny", "Bash(curl:*)"),)), "ls; make") == "ask"
