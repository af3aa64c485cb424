"""Queries and short code run nothing only in a closed world; so do commands behind wrappers with known options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from cognition import Policy, Rule, ToolCall
from cognition.policy._closed_arguments import LONGEST, is_closed, is_plain_query
from cognition.policy._command import program_of
from cognition.policy._wrapped_commands import wrapped_command
from tests.cognition.naming import case_name
from tests.cognition.policy.hostile import BASH

QUERIES = (
    "select 1",
    "SELECT count(*) FROM users WHERE name like '%a''b%' and id in (1, 2.5) order by 1;",
    "select a::text, b.c from t as b join u using (id) where x <> 1 or y >= 2",
    "insert into t (a, b) values (1, 'x')",
    "insert into t select * from u",
    "update t set a = 1 where b = 2",
    "delete from t where id = 1",
    "explain query plan select 1",
    "show server_version",
    "pragma table_info(users)",
    "create table if not exists t (id int, name varchar(20), primary key (id))",
    "drop table t",
    "create database a",
    "alter table t add b int",
)
OTHER_QUERIES = (
    "",
    "select f(1)",
    "select edit ('a', 'curl x')",
    "select load_extension('x')",
    "select 1; select 2",
    "select 1 -- x",
    "select /* x */ 1",
    "select a into b",
    "select * from t into outfile 'x'",
    "copy t to program 'curl x'",
    "do 'x'",
    "call f()",
    "select 'a\\'",
    'select "f"(1)',
    "select $$x$$",
    "select a::f(1)",
    "attach 'x' as y",
    "pragma writable_schema=1",
    "create function f() returns int",
    "select " + "1," * LONGEST + "1",
)

CLOSED = (
    "psql -c 'select 1'",
    "psql -At -U me -h host -p 5432 -d app -c 'select 1' -c '\\dt users'",
    "psql -Atc 'select 1' app me",
    "psql --command='select 1' --csv -F , postgres://me@host:5432/app",
    "psql -f a.sql app",
    "psql --file a.sql --dbname app",
    "psql --port 5432 --list app me",
    "psql '-c\\dt'",
    "psql -R , -F '\\t' -c 'select 1'",
    "psql -l",
    "psql -Al",
    "psql --list",
    "psql --version",
    "mysql -u root -psecret -e 'show databases' app",
    "mysql --execute='select 1'",
    "sqlite3 a.db 'select 1' .tables",
    "sqlite3 -header -csv :memory: 'select 1'",
    "sqlite3 a.db '.schema users'",
    "sqlite3 -csv a.db 'select 1'",
    "redis-cli ping",
    "redis-cli -p 6379 ping",
    "redis-cli -h host -n 2 keys 'a:*'",
    "redis-cli --scan --pattern 'a:*'",
    "redis-cli --bigkeys",
    "ssh-keygen -t ed25519 -C me@host -f key -N ''",
    "convert a.png -resize 50% b.png",
    "identify -format %wx%h a.png",
    "python3 -u -c 'print(1)'",
    "python3 -u -B -c 'print(1)'",
    "python3 -c 'import sys; print(sys.argv)' curl",
    "python3 -c 'import foo'",
    "node -p 'process.version'",
    "node -e \"console.log(require('./a.json').b, 1)\"",
    "ruby -e 'puts RUBY_VERSION'",
    "php -r 'echo PHP_VERSION . PHP_EOL;'",
    "perl -pi -e 's/a+/b/g' a.txt src/b.txt",
    "perl -ne 'print if /^a/' a.txt",
    "perl -pe 's/a/b/' a.txt",
    "perl -p -i -e 's/a/b/' a.txt",
    "tmux ls",
    "tmux new -d -s dev",
    "crontab -l",
    "nc -zv host 80",
    "deno run --allow-net a.ts",
    "ghc -O2 -o a Main.hs",
)
NOT_CLOSED = (
    "psql",
    "psql app",
    "psql -c",
    "psql -c '\\! x'",
    "psql -c 'select 1' -o x",
    "psql -c 'select 1' --",
    "psql -c 'select 1' -",
    "psql -c 'select 1' a b c",
    "psql -c 'select 1' 'host=x'",
    "psql -c 'select 1' -d 'host=x'",
    "psql -c 'select 1' -F 'abc'",
    "psql -c 'select 1' -U '|x'",
    "psql -c 'select 1' --dbname 'host=x'",
    "psql --list -o x",
    "psql -Aoc 'select 1'",
    "psql --file '|x'",
    "psql --command",
    "psql --csv=x -c 'select 1'",
    "psql -f -",
    "psql -f '|x'",
    "mysql",
    "mysql -x",
    "mysql a b -e 'select 1'",
    "mysql -e 'system x'",
    "mysql -e 'select\n1'",
    "mysql -u '|x' -e 'select 1'",
    "sqlite3 a.db",
    "sqlite3 -csv",
    "sqlite3 -cmd x a.db 'select 1'",
    "sqlite3 /dev/stdin 'select 1'",
    "sqlite3 a.db '.shell x'",
    "redis-cli",
    "redis-cli -x set a",
    "redis-cli -h '|x' ping",
    "redis-cli -h",
    "redis-cli eval x 0",
    "redis-cli get 'a;'",
    "ssh-keygen -D x",
    "ssh-keygen -l x",
    "convert '|x' a.png",
    "convert a.msl b.png",
    "convert a.png -process x b.png",
    "python3 -c",
    "python3 -u",
    "python3 -W all -c 1",
    "python3 -c 'import os; os.system(1)'",
    "python3 -c 'import foo' curl",
    "node -e 'x()'",
    "node -e",
    "ruby -e '`x`'",
    "php -r 'system(1);'",
    "perl -e 1",
    "perl -p",
    "perl -pe 's/a/b/e' a",
    "perl -pe 's/a/b/' 'x|'",
    "perl -Mx -e 's/a/b/'",
    "perl -pe",
    "tmux new -s dev x",
    "tmux 'ls x'",
    "tmux 'new -s' dev",
    "crontab a",
)
FED: Mapping[str, bool] = {
    "tmux attach": False,
    "python3 -c 'import foo'": False,
    "python3 -c 'import json, sys; print(json.load(sys.stdin))'": True,
}


def closed(line: str, *, fed: bool = False) -> bool:
    words = tuple(shlex.split(line))
    return is_closed(program_of(words[0]), words, fed=fed)


@pytest.mark.parametrize("text", QUERIES, ids=case_name)
def test_a_query_of_known_functions_is_plain(text: str) -> None:
    assert is_plain_query(text)


def test_the_longest_query_is_looked_at() -> None:
    assert is_plain_query(f"select {'1' * (LONGEST - 7)}")
    assert not is_plain_query(f"select {'1' * (LONGEST - 6)}")


@pytest.mark.parametrize("text", OTHER_QUERIES, ids=case_name)
def test_no_other_query_is(text: str) -> None:
    assert not is_plain_query(text)


@pytest.mark.parametrize("line", CLOSED, ids=case_name)
def test_known_arguments_run_nothing(line: str) -> None:
    assert closed(line)


@pytest.mark.parametrize("line", NOT_CLOSED, ids=case_name)
def test_other_arguments_may_run_something(line: str) -> None:
    assert not closed(line)


@pytest.mark.parametrize(("line", "expected"), FED.items(), ids=case_name)
def test_a_program_that_may_read_its_input_is_not_closed_with_one(line: str, expected: bool) -> None:
    assert closed(line, fed=True) == expected


def test_a_word_that_the_shell_expands_may_be_anything() -> None:
    assert not is_closed("psql", ("psql", "-c", None), fed=False)


WRAPPED: Mapping[str, str | None] = {
    "docker exec -it -u root web ls -l": "ls -l",
    "docker container exec web ls": "ls",
    "docker compose -f a.yml exec -T web ls": "ls",
    "docker-compose exec web ls": "ls",
    "docker run --rm -v /a:/b -w /b python:3.12 pytest": "pytest",
    "kubectl -n a exec -it pod/b -c d -- ls": "ls",
    "ssh -p 22 -o ConnectTimeout=5 me@host ls -l": "ls -l",
    "watch -n1 -d ls": "ls",
    "strace -f -e trace=open -o out ls": "ls",
    "ltrace -S ls": "ls",
    "valgrind --leak-check=full ./a": "./a",
    "hyperfine -w 3 ls pwd": "ls pwd",
    "docker ps": None,
    "docker exec -e A=b web ls": None,
    "docker run me/app ls": None,
    "docker run python:3 -c x": None,
    "kubectl exec pod ls": None,
    "ssh host": None,
    "ssh host -p 22 ls": None,
    "ssh -o ProxyCommand=x host ls": None,
    "watch -x ls": None,
    "strace -E A=b ls": None,
    "hyperfine ls -S sh": None,
    "watch": None,
}


@pytest.mark.parametrize(("line", "expected"), WRAPPED.items(), ids=case_name)
def test_a_wrapper_runs_the_words_behind_its_options(line: str, expected: str | None) -> None:
    words = tuple(line.split())
    found = wrapped_command(words[0], words)

    assert (None if found is None else " ".join(map(str, found[1]))) == expected


ASKING = Policy((Rule("deny", "Bash(curl:*)"),))
VERDICTS = (
    ("docker exec web ls", "allow"),
    ("docker exec web bash", "ask"),
    ("docker exec web $X", "ask"),
    ('docker run -v "$PWD":/a python:3 pytest', "allow"),
    ('X=curl; docker run -v "$X":/a python:3 pytest', "ask"),
    ("ssh host 'cd /srv && ls'", "allow"),
    ("ssh host $X", "ask"),
    ("hyperfine 'make a' ls", "allow"),
    ("hyperfine ls 'curl x'", "deny"),
    ("strace ls", "allow"),
    ("PSQL_PAGER='curl x' psql -c 'select 1'", "ask"),
    ("X=1; psql -c 'select 1'", "ask"),
    ("./psql -c 'select 1'", "ask"),
    ("PATH=a; psql -c 'select 1'", "ask"),
    ("uv run python -c 'print(1)'", "allow"),
    ("uv run python -c 'exec(1)'", "ask"),
    ("uv run pytest curl", "ask"),
    ("poetry run black .", "allow"),
    ("./uv run sh", "ask"),
    ("if [ -f .env ]; then . ./.env; fi", "allow"),
    ("echo x > .env; . ./.env", "ask"),
    ("for i in a; do . ./.env; done", "ask"),
    ('git log --author="$(git config user.name)"', "allow"),
    ("git log $(git config user.name)", "ask"),
    ('go build -ldflags "-X a.b=$(git describe --tags)"', "allow"),
    ('go build -ldflags "-X a.b=$(printf x)"', "ask"),
    ('echo x > a; go build -ldflags "-X a.b=$(git describe --tags)"', "ask"),
    ('X=1; go build -ldflags "-X a.b=$(git describe --tags)"', "ask"),
    ('cp a b; go build -ldflags "-X a.b=$(git describe --tags)"', "ask"),
    ('for i in a; do go build -ldflags "-X a.b=$(git describe --tags)"; done', "ask"),
    ('docker run -v "$(pwd)":/a -w /a golang go build', "allow"),
    ('cd "$X"; docker run -v "$(pwd)":/a -w /a golang go build', "ask"),
    ("eslint 'src/**/*.{ts,tsx}'", "allow"),
    ("eslint '{a,curl}'", "ask"),
    ("ls | xargs git add", "allow"),
    ("ls | xargs git config", "ask"),
    ("case $1 in start) ./run;; *) echo no;; esac", "allow"),
    ("case a in # x\n a) cd src && ls;; # y\n b) ls; esac; ls", "allow"),
    ("for i in a; do case $i in a) ls;; esac; done", "allow"),
    ("for i in a; do case $i in a) curl x;; esac; done", "deny"),
    ("do_it() { echo $1; }; do_it now", "allow"),
    ("do_it() { make $1; }; do_it now", "ask"),
)


@pytest.mark.parametrize(("line", "expected"), VERDICTS, ids=case_name)
def test_everyday_shell_is_free_unless_a_rule_may_be_met(line: str, expected: str) -> None:
    assert ASKING.judge(ToolCall("1", "Bash", {"command": line}), BASH).action == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("docker exec web ls", "allow"),
        ("docker exec web bash", "allow"),
        ("ssh host ls", "ask"),
        ("watch ls", "ask"),
        ("case a in a) ls;; esac", "allow"),
        ("case a in a) cd src;; esac; ./run", "ask"),
        ("case a in a) cd src;; esac; ls", "ask"),
        ("do_it() { ls; }; do_it", "ask"),
    ],
)
def test_an_allowance_covers_what_it_names(line: str, expected: str) -> None:
    allowed = ("ls", "ssh", "watch", "docker exec", "./run", "do_it")
    policy = Policy(tuple(Rule("allow", f"Bash({words}:*)") for words in allowed), "ask")

    assert policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action == expected
