"""What stays free: ordinary command lines under two denials."""

from __future__ import annotations

from cognition import Policy, Rule, ToolCall
from tests.cognition.policy.everyday import EVERYDAY
from tests.cognition.policy.hostile import BASH

MOST_QUESTIONS = 10
"""Of 150 lines."""


def test_ordinary_commands_run_without_a_question_under_two_denials() -> None:
    policy = Policy((Rule("deny", "Bash(curl:*)"), Rule("deny", "Bash(rm -rf:*)")))
    judged = {line: policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action for line in EVERYDAY}

    assert [line for line, action in judged.items() if action == "deny"] == []
    assert len(judged) >= 150
    assert len({line.split()[0] for line in EVERYDAY}) >= 50
    asking = [line for line, action in judged.items() if action == "ask"]
    assert len(asking) <= MOST_QUESTIONS * len(judged) / 150, asking


FREE = (
    "sed -e 's/^ *//' -e '/^$/d' notes.txt",
    "git show HEAD:src/app.py | less",
    "git diff --name-only main... | xargs ruff check",
    "ruby -v",
    "node -v",
    "npx tsc --noEmit",
    "npx prettier --check .",
    "npx eslint src --ext .ts,.tsx --fix",
    "uv run pytest -q",
    "poetry run pytest",
    "bundle exec rspec spec/models",
    "docker run --rm -it -p 8080:80 nginx:alpine",
    "docker run -v $PWD:/app x",
    "cd src && docker run -v $PWD:/app x",
    "python -m venv .venv && . .venv/bin/activate",
    "source .venv/bin/activate && pip install -r requirements.txt",
    "git log --grep='find the bug'",
    "git add *",
    "gcc *.c -o x",
    "for f in *.md; do pandoc $f; done",
    "chmod +x run.sh && ./run.sh",
    "cp .env.example .env && ./run.sh",
    "ln -sf a b && make",
    "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
    "export CC=gcc; make",
    "git commit -m \"$(cat <<'EOF'\nMend it (now)\n\nIt was `broken`.\nEOF\n)\"",
    "gh pr create --title 'Mend it' --body \"$(cat <<'EOF'\nIt works.\nEOF\n)\"",
    'while IFS= read -r line; do echo "$line"; done < list.txt',
    "set -e; make; make test",
    "set -euo pipefail && ./build.sh",
    "echo $((60 * 60))",
    'echo "${HOME%/}" ${PORT:-8000}',
    "cut -d$'\\t' -f1 table.txt",
    "sed 's/^[ \\t]*//;s/[ \\t]*$//' a.txt",
    "node --check a.js",
    "php -l index.php",
    "cat change.diff | git apply",
    'for f in *.py; do [ -f "$f" ] && wc -l "$f"; done',
    'b=$(git rev-parse HEAD); [ "$b" = "$(cat last)" ] && [ -n "$b" ] && echo same',
)
"""Lines that an earlier reader asked about, or that stand near those of attacks."""


def test_lines_near_those_of_attacks_stay_free() -> None:
    policy = Policy((Rule("deny", "Bash(curl:*)"), Rule("deny", "Bash(rm -rf:*)")))
    judged = {line: policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action for line in FREE}

    assert judged == dict.fromkeys(FREE, "allow")
