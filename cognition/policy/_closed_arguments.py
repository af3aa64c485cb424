"""Recognise programs whose arguments certainly run nothing: queries of databases, and short code of interpreters.

Each check is a closed world. Its result is False for all that it does not know; the reader then reads the command as
any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from cognition.policy._command import Words, reads_input

Texts = tuple[str, ...]

NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
WORD = re.compile(r"[\w./~@+][\w./:@+,=~-]*", re.ASCII)
"""The name of a host, a user, a file or a database, or a number."""
LONGEST = 4_000
"""The most characters of a query that is looked at."""

# ---------------------------------------------------------------------------------------------------------------- SQL

FUNCTIONS = frozenset(
    """
    abs all and any array_agg as avg between by cast ceil char_length coalesce concat count current_date date date_part
    date_trunc datetime decimal distinct else exists extract floor from group_concat having ifnull in is
    json_extract julianday key length like limit lower ltrim max min not now nullif numeric on or order over partition
    primary printf replace round row_number rtrim select sqlite_version strftime string_agg substr substring sum then
    to_char total trim unixepoch upper using values varchar version when where
    """.split()
)
"""Words that a bracket may follow: functions that run nothing, types, and words of the grammar."""
SQL_TOKEN = re.compile(
    r"(?P<word>[A-Za-z_]\w*)(?P<call>\s*\()?|'[^'\\]*'|\d+(?:\.\d+)?|::(?P<type>[a-z]+)\b(?!\s*\()"
    r"|<>|[<>!]=|\|\||[-+*/%=<>(),.]|\s+",
    re.ASCII,
)
SQL_BEGIN = re.compile(
    rf"\s*(?:(?:select|values|update|delete\s+from)\b(?!\s*\()|show\s+[\w\s]+\Z|explain\s+(?:query\s+plan\s+|analyze\s+)?select\b"
    rf"|insert\s+into\s+{NAME}\s*(?:\([\w\s,]+\))?\s*(?=values\b|select\b)"
    rf"|pragma\s+(?:table_info|table_list|index_list|foreign_key_list|integrity_check|user_version)(?:\(\w+\))?\s*\Z"
    rf"|create\s+table\s+(?:if\s+not\s+exists\s+)?{NAME}\s*(?=\()|(?:drop|truncate)\s+table\s+|describe\s+"
    rf"|(?:create|drop)\s+database\s+\w+\s*\Z|alter\s+table\s+{NAME}\s+(?:add|drop|rename)\s+)",
    re.ASCII | re.IGNORECASE,
)
"""The beginnings of statements, up to where their words may be those of ``SQL_TOKEN``."""
NO_WORDS = frozenset({"attach", "call", "copy", "do", "dumpfile", "execute", "into", "load", "outfile", "program"})
"""Words that occur in no harmless statement behind its beginning."""


def is_plain_query(text: str) -> bool:
    """Return whether a text is one SQL statement that calls no function but those of the list."""
    text = text.strip()
    text = text.removesuffix(";")
    begun = SQL_BEGIN.match(text) if len(text) <= LONGEST else None
    if begun is None:
        return False
    at = begun.end()
    while at < len(text):
        token = SQL_TOKEN.match(text, at)
        if token is None or text.startswith(("--", "/*"), at):
            return False
        word = (token["word"] or "").lower()
        if word in NO_WORDS or (token["call"] and word not in FUNCTIONS):
            return False
        at = token.end()
    return True


# ------------------------------------------------------------------------------------------------------------ databases

PSQL_COMMAND = re.compile(r"\\(?:d[A-Za-z]*\+?|l\+?|conninfo)(?: [\w.]+)?", re.ASCII)
SQLITE_COMMAND = re.compile(r"\.(?:databases|dump|fullschema|indexes|indices|schema|tables)(?: \w+)?", re.ASCII)
DATABASE = re.compile(r"(?:postgres(?:ql)?://)?[\w.][\w.:@/-]*", re.ASCII)
FILE = re.compile(r":memory:|(?:~/|\.{1,2}/|/)*\w[\w./-]*", re.ASCII)


class _Options:
    """Options of a program: letters without a value, letters with one, and long ones of both sorts."""

    def __init__(self, flags: str, values: str, long_flags: str = "", long_values: str = "") -> None:
        self.flags, self.values = frozenset(flags), frozenset(values)
        self.long_flags, self.long_values = frozenset(long_flags.split()), frozenset(long_values.split())

    def read(self, words: Texts) -> tuple[list[tuple[str, str]], list[str]] | None:
        """Return the options with their values, and the other words; None if a word is unknown."""
        given: list[tuple[str, str]] = []
        operands: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word[:1] != "-":
                operands.append(word)
                continue
            name, sign, value = word.partition("=")
            if name[:2] == "--":
                if name in self.long_flags and not sign:
                    given.append((name, ""))
                elif name in self.long_values and (sign or rest):
                    given.append((name, value if sign else rest.pop(0)))
                else:
                    return None
                continue
            place = 1
            while place < len(word) and word[place] in self.flags:
                given.append((f"-{word[place]}", ""))
                place += 1
            if place < len(word):
                value = word[place + 1 :]
                if word[place] not in self.values or not (value or rest):
                    return None
                given.append((f"-{word[place]}", value or rest.pop(0)))
            elif place == 1:
                return None
        return given, operands


PSQL = _Options(
    "AXetqxwWl1", "UhpdcfFR",
    "--csv --expanded --html --list --no-align --no-password --no-psqlrc --quiet --single-transaction --tuples-only",
    "--command --dbname --file --host --port --username",
)  # fmt: skip
MYSQL = _Options(
    "NBstvCqr", "uhPDe", "--batch --silent --skip-column-names --table --verbose --vertical",
    "--database --execute --host --port --protocol --user",
)  # fmt: skip
SQLITE_FLAGS = frozenset(
    f"{dashes}{name}"
    for dashes in ("-", "--")
    for name in "batch box column csv header html json line list markdown noheader quote readonly table tabs".split()
)
MYSQL_PASSWORD = re.compile(r"-p[\w.!@#%^&*+=-]*", re.ASCII)


def is_psql(words: Texts) -> bool:
    read = PSQL.read(words)
    if read is None or len(read[1]) > 2 or not all(map(DATABASE.fullmatch, read[1])):
        return False
    ends = False
    for name, value in read[0]:
        if name in ("-c", "--command"):
            ends = True
            if not (is_plain_query(value) or PSQL_COMMAND.fullmatch(value)):
                return False
        elif name in ("-f", "--file"):
            ends = True
            if reads_input(value) or not FILE.fullmatch(value):
                return False
        elif name in ("-d", "--dbname"):
            if not DATABASE.fullmatch(value):
                return False
        elif name in ("-l", "--list"):
            ends = True
        elif name in ("-F", "-R"):
            if len(value) > 2:
                return False
        elif value and not WORD.fullmatch(value):
            return False
    return ends


def is_mysql(words: Texts) -> bool:
    read = MYSQL.read(tuple([word for word in words if not MYSQL_PASSWORD.fullmatch(word)]))
    if read is None or len(read[1]) > 1 or not all(map(DATABASE.fullmatch, read[1])):
        return False
    queries = [value for name, value in read[0] if name in ("-e", "--execute")]
    others = [value for name, value in read[0] if name not in ("-e", "--execute") and value]
    plain = all(is_plain_query(query) and len(query.splitlines()) == 1 for query in queries)
    return bool(queries) and plain and all(map(WORD.fullmatch, others))


def is_sqlite(words: Texts) -> bool:
    at = 0
    while at < len(words) and words[at] in SQLITE_FLAGS:
        at += 1
    if len(words) < at + 2 or not FILE.fullmatch(words[at]) or reads_input(words[at]):
        return False
    return all(is_plain_query(word) or SQLITE_COMMAND.fullmatch(word) for word in words[at + 1 :])


REDIS = _Options("", "hpn", "--raw --no-raw --csv --json --scan --bigkeys", "--pattern")
REDIS_COMMANDS = frozenset(
    """
    dbsize decr del exists expire flushall flushdb get hget hgetall hkeys hlen hset incr info keys lindex llen lpop
    lpush lrange mget ping publish rpop rpush sadd scan scard set smembers strlen ttl type xlen xrange zadd zcard zrange
    """.split()
)
REDIS_WORD = re.compile(r"[\w:.*?@/ -]*", re.ASCII)


def is_redis(words: Texts) -> bool:
    at = 0
    while at < len(words) and words[at][:1] == "-":
        at += 2 if words[at] in ("-h", "-p", "-n", "--pattern") else 1
    read = REDIS.read(words[:at])
    if read is None or not all(not value or REDIS_WORD.fullmatch(value) for _, value in read[0]):
        return False
    rest = words[at:]
    if not rest:
        return "--scan" in words or "--bigkeys" in words
    return rest[0].lower() in REDIS_COMMANDS and all(map(REDIS_WORD.fullmatch, rest[1:]))


KEYGEN = _Options("qly", "tbCfN")


def is_keygen(words: Texts) -> bool:
    read = KEYGEN.read(words)
    return read is not None and not read[1]


IMAGE_OPTION = re.compile(
    r"[-+](?:alpha|auto-orient|background|blur|colors|colorspace|crop|density|depth|extent|fill|flip|flop|format|gravity|negate"
    r"|quality|repage|resize|rotate|sharpen|strip|thumbnail|trim|unsharp)"
)
IMAGE_WORD = re.compile(r"(?![-+])(?!.*\.(?:mvg|msl))[\w./%#+^!<>-]*", re.ASCII)


def is_image(words: Texts) -> bool:
    """Return whether ImageMagick changes or describes named files: a file may be a command or a script to it."""
    return all(IMAGE_OPTION.fullmatch(word) or IMAGE_WORD.fullmatch(word) for word in words)


# --------------------------------------------------------------------------------------------------------- interpreters

PYTHON_FLAGS = re.compile(r"-[bBdEIOPqRsSuv]+")
ITEM = r"'[^'\\\n]*'|\"[^\"\\\n]*\"|\d+(?:\s*[-+*/%]\s*\d+)*"
JS_VALUE = (
    rf"(?:{ITEM}|process\.(?:version|platform|arch|pid|cwd\(\)|uptime\(\)|versions(?:\.\w+)?)"
    r"|require\(['\"]\.{1,2}/[\w./-]+\.json['\"]\)(?:\.\w+)*|Date\.now\(\)|new Date\(\)(?:\.toISOString\(\))?)"
)
JS_SUM = rf"(?:{JS_VALUE}(?:\s*[+,]\s*{JS_VALUE})*|JSON\.stringify\({JS_VALUE}(?:,\s*null,\s*\d)?\))"
NODE = re.compile(rf"\s*(?:console\.log\({JS_SUM}\)|{JS_SUM})\s*;?\s*", re.ASCII)
RUBY_ITEM = r"'[^'\\\n]*'|\"[^\"\\#\n]*\"|\d+(?:\s*[-+*/%]\s*\d+)*"
RUBY = re.compile(
    rf"\s*(?:puts|print|p)\s+(?:RUBY_(?:VERSION|PLATFORM|ENGINE)|{RUBY_ITEM}|Time\.now)\s*;?\s*", re.ASCII
)
PHP_ITEM = r"PHP_(?:VERSION|OS|EOL)|phpversion\(\)|time\(\)|'[^'\\\n]*'|\"[^\"\\$\n]*\"|\d+(?:\s*[-+*/%]\s*\d+)*"
PHP = re.compile(rf"\s*(?:phpinfo\(\)|(?:echo|print)\s+(?:{PHP_ITEM})(?:\s*\.\s*(?:{PHP_ITEM}))*)\s*;?\s*", re.ASCII)
PERL_PLAIN = r"(?:[^/\\@$%{}`(\n?]|\\[\\wWdDsSbtn./+*-]|\$(?=/))*"
PERL = re.compile(rf"(?:s/{PERL_PLAIN}/[^/\\@${{}}`\n]*/[gim]*|print if /{PERL_PLAIN}/)\s*;?\s*", re.ASCII)
PERL_FLAGS = re.compile(r"-(?:[pn]i?|i|[pn]?0\d*|p?i\.bak)")


def is_python(words: Texts, *, fed: bool) -> bool:
    """Return whether Python runs code that is harmless. Other modules may read their input and their arguments."""
    at = 0
    while at < len(words) and PYTHON_FLAGS.fullmatch(words[at]):
        at += 1
    if words[at : at + 1] != ("-c",) or len(words) < at + 2:
        return False
    from cognition.policy._python_code import read_python

    code = read_python(words[at + 1])
    return code.harmless and not (code.imports and (fed or len(words) > at + 2))


def _is_expression(options: frozenset[str], pattern: re.Pattern[str], words: Texts) -> bool:
    return len(words) == 2 and words[0] in options and pattern.fullmatch(words[1]) is not None


def is_perl(words: Texts) -> bool:
    """Return whether Perl only replaces or prints text in named files: others may be commands to it."""
    at = 0
    while at < len(words) and PERL_FLAGS.fullmatch(words[at]):
        at += 1
    if words[at : at + 1] not in (("-pe",), ("-ne",), ("-e",)):
        return False
    at += 1
    return len(words) > at and PERL.fullmatch(words[at]) is not None and all(map(FILE.fullmatch, words[at + 1 :]))


# ------------------------------------------------------------------------------------------------------- other programs

VERSION = r"--version|-V"
TELLING: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(
        ("emacs", "fish", "gdb", "hyperfine", "nvim", "parallel", "ssh", "strace", "tcsh", "vim", "zsh"),
        re.compile(VERSION),
    ),
    "crontab": re.compile(r"-l"),
    "deno": re.compile(
        rf"(?:fmt|lint|check|test|info)(?: (?:--check|\w[\w./-]*))*|{VERSION}"
        r"|run(?: --(?:allow-(?:all|env|net|read|sys|write)|check|no-check|watch)|-A)* \w[\w./-]*\.m?[jt]s"
    ),
    "ghc": re.compile(rf"(?:(?:-O\d?|-Wall|-threaded|--make|-o \w[\w./-]*) )*\w[\w./-]*\.l?hs|{VERSION}", re.ASCII),
    **dict.fromkeys(("mariadb", "mysql", "psql"), re.compile(VERSION)),
    **dict.fromkeys(("nc", "ncat"), re.compile(r"-(?=\w*z)[zvnu46]+(?: -w \d+)? \w[\w.-]* \d[\d -]*", re.ASCII)),
    "screen": re.compile(r"-ls|-list"),
    "tmux": re.compile(
        r"ls|list-(?:sessions|windows|panes)"
        r"|(?:attach|attach-session|a|kill-session|has-session)(?: -d)?(?: -t \w[\w.-]*)?"
        rf"|(?:new|new-session)(?: -[dA]+)* -s \w[\w.-]*|{VERSION}"
    ),
}
"""Programs with lines of arguments with which they only report, or join a session. They read no input."""


def _tells(pattern: re.Pattern[str], words: Texts) -> bool:
    return all(" " not in word for word in words) and pattern.fullmatch(" ".join(words)) is not None


CODE_CHECKS: Mapping[str, Callable[[Texts], bool]] = {
    "psql": is_psql,
    **dict.fromkeys(("mysql", "mariadb"), is_mysql),
    "sqlite3": is_sqlite,
    "redis-cli": is_redis,
    "ssh-keygen": is_keygen,
    **dict.fromkeys(("convert", "identify", "magick", "mogrify"), is_image),
    **dict.fromkeys(
        ("node", "nodejs"), partial(_is_expression, frozenset({"-e", "-p", "--eval", "--print", "-pe"}), NODE)
    ),
    "ruby": partial(_is_expression, frozenset({"-e"}), RUBY),
    "php": partial(_is_expression, frozenset({"-r"}), PHP),
    "perl": is_perl,
}
PYTHONS = frozenset({"python", "python2", "python3", "pypy", "pypy3"})
CLOSED = PYTHONS | CODE_CHECKS.keys() | TELLING.keys()
"""The programs that ``is_closed`` knows."""


def is_closed(program: str, words: Words, *, fed: bool) -> bool:
    """Return whether a command certainly runs no other program, whatever its environment.

    Args:
        program: one of ``CLOSED``.
        words: the command.
        fed: whether it reads the output of another command, or a file.
    """
    texts = tuple([word for word in words[1:] if word is not None])
    if len(texts) != len(words) - 1:
        return False
    if program in PYTHONS:
        return is_python(texts, fed=fed)
    if program in TELLING and not fed and _tells(TELLING[program], texts):
        return True
    return program in CODE_CHECKS and CODE_CHECKS[program](texts)
