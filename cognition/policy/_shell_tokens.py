"""The tokens of a command line, as regular expressions and sets of characters."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[\w@%+:,./=^-]+", re.ASCII)
PLAIN_LINE = re.compile(r"[\w@%+:,./^-]++(?: [\w@%+:,./=^-]++)*+", re.ASCII)
"""Words separated by single spaces, without characters special to a shell; most command lines are of this form."""
SIMPLE_WORD = r"""(?:[\w@%+:,./=^-]++|'[^']++'|"[^"$`\\]++")"""
SIMPLE_COMMAND = rf"{SIMPLE_WORD}(?: {SIMPLE_WORD})*+"
SIMPLE_LIST = re.compile(rf"{SIMPLE_COMMAND}((?: *+(?:&&|\|\|?|;) *+{SIMPLE_COMMAND})*+)", re.ASCII)
"""Commands of plain and quoted words, separated by single spaces, with separators between the commands.

The group is what follows the first command.
"""
SIMPLE_COMMANDS = re.compile(rf"({SIMPLE_COMMAND}) *+(&&|\|\|?|;|)", re.ASCII)
"""The commands of a ``SIMPLE_LIST``, each with the separator behind it."""
SIMPLE_WORDS = re.compile(r"""([\w@%+:,./=^-]++)|'([^']++)'|"([^"]++)\"""", re.ASCII)
"""The words of such a command, with a group for each kind."""
PLAIN_WORDS = re.compile(r"([\w@%+:,./=^-]++(?=[ \t\n;&|()]|$)(?: [\w@%+:,./=^-]++(?=[ \t\n;&|()]|$))*+) *+", re.ASCII)
QUOTED_WORD = re.compile(r"""(?:'[^']*+'|"[^"$`\\]*+")(?=[ \t\n;&|()]|$)""")
"""A word in quotes without characters special to a shell."""
BLANK = re.compile(r"(?:[ \t]|\\\n)+")
COMMENT = re.compile(r"#[^\n]*")
BETWEEN = re.compile(r"(?:&&|\|\||\|&|[;|\n]|&(?!>)) *+")
REDIRECTION = re.compile(r"(?:&>>?|[0-9]*(?:<<<|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\()))")
VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\d|\{(?:#?\w+|[@*#?!$-])\}|[@*#?!$-])", re.ASCII)
CUT_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?:%%?|##?|:?[-+])([\w./@,-]*)\}", re.ASCII)
"""A variable without its beginning or end, or with a word in its place."""
SUM = re.compile(r"\$\(\([\d \t+*/%()<>=!&|^~-]*\)\)", re.ASCII)
"""Arithmetic of numbers. That of variables runs what their values contain."""
ESCAPES = re.compile(r"\$'(?:\\[tn])+'")
"""White space."""
LITERAL = re.compile(r"\{(?:\}(?=[ \t\n;]|$)|(?=[ \t\n]|$))|(?<![^ \t\n;&|()])\[(?=[ \t\n]|$)")
"""Texts that a shell leaves unchanged: ``{}``, a brace that opens a group, and the command ``[``."""
TEST = re.compile(
    r"""\[\[(?:[ \t]+(?:-[defhLnrswxz]|[!=]=|=~?|!|&&|\|\||[\w@%+:,./~*?][\w@%+:,./~*?-]*|"?\$\w+"?"""
    r"""|"[^"$`\\\n]*"|'[^'$`\[\n]*'))+[ \t]+\]\](?=[ \t\n;&|)]|$)""",
    re.ASCII,
)
"""A test of files or texts. Tests of numbers and of variables' names are missing: they run code in their operands."""
FUNCTION_NAME = re.compile(r"[a-z]\w*", re.ASCII)
FUNCTION = re.compile(r"\([ \t]*\)[ \t\n]*(?=\{[ \t\n])")
"""The beginning of a function, behind its name."""
CASE = re.compile(r"case[ \t]+(?=[^ \t\n#;&|()<>])")
BEFORE_PATTERN = re.compile(r"[ \t|(]+")
CASE_BLANK = re.compile(r"(?:[ \t\n]|(?<=[ \t\n;])#[^\n]*\n)*")
CASE_IN = re.compile(rf"[ \t\n]+in(?=[ \t\n]){CASE_BLANK.pattern}")
CASE_WORD = r"""(?:[\w@%+:,./=*?~^-]|\[!?[\w.,-]+\]|'[^'\n]*'|"[^"$`\\\n]*")++"""
CASE_PATTERN = re.compile(
    rf"(?!esac(?![\w@%+:,./=*?~^-]))\(?[ \t]*{CASE_WORD}(?:[ \t]*\|[ \t]*{CASE_WORD})*[ \t]*\)", re.ASCII
)
"""The patterns of a list in a ``case``, which run nothing."""
ESAC = re.compile(r"esac(?=[ \t\n;&|)<>]|$)")
TEST_WORDS = re.compile(r"""[^ \t"']*(?:"[^"]*"|'[^']*'|[^ \t])""")
PLAIN_IN_QUOTES = re.compile(r'[^"$`\\]+')
NAME_OF_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
TAKEN = frozenset(
    """
    _ BASH_ARGV BASH_ARGV0 BASH_COMMAND BASH_EXECUTION_STRING BASH_REMATCH BASH_SOURCE COPROC DIRSTACK FUNCNAME HISTCMD
    MAPFILE OPTARG READLINE_LINE REPLY
    """.split()
)
"""Variables that a shell sets to words of the line."""
PLACES = frozenset({"OLDPWD", "PWD"})
"""Variables that a shell sets to its directories."""
PLAIN_PATH = re.compile(r"[\w./+-]*", re.ASCII)
TILDE = re.compile(r"(?<![^\s=:;&|(<>])~[+\-\d]")
"""A directory of the shell: ``~+`` is the present one."""
FOR_VARIABLE = re.compile(r"[^\s;&{]\}\Z")
"""The end of ``{name}``, which before a redirection is a variable to set."""
EXPANDING = re.compile(r"[$`*?\[{~]")
"""Signs in a word that a shell may expand."""
PRIVATE = re.compile(r"[a-z][a-z0-9]*")
"""Names of variables that no program and no shell reads."""
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""White space and control characters that shells and readers may take for something else."""
