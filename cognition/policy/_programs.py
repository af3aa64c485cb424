"""Data on programs for the command line parser; extend it as needed.

A program missing from these tables is assumed to run any program that its arguments name.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Carrier:
    """A program that runs the command after its options. An unknown option makes the command unsure."""

    flags: str = ""
    """Letters of options without a value."""
    values: str = ""
    """Letters of options with a value."""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    operands: int = 0
    """The number of words before the command, such as the duration of ``timeout``."""
    assignments: bool = False
    """Whether ``NAME=value`` may precede the command."""
    plain: bool = True
    """Whether it has no effect except the command, so that an allow rule need not name it."""
    harmless: frozenset[str] = frozenset()
    """The options that don't change this. With any other option no allow rule covers its command."""
    more: bool = False
    """Whether the command gets more words than the line shows."""
    asks: str = ""
    """Letters of options that only print information and run nothing."""


def _long(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


CARRIERS: Mapping[str, Carrier] = {
    "env": Carrier(
        "i0v",
        "uC",
        _long("ignore-environment null debug"),
        _long("unset chdir"),
        assignments=True,
        harmless=frozenset({"-i", "-u", "--ignore-environment", "--unset"}),
    ),
    "sudo": Carrier(
        "EHnSbkKAPB",
        "ugpCrthTUDR",
        _long("preserve-env set-home non-interactive stdin background reset-timestamp askpass preserve-groups"),
        _long("user group prompt close-from role type host command-timeout other-user chdir chroot"),
        assignments=True,
        plain=False,
        harmless=frozenset(
            {"-E", "-H", "-S", "-g", "-k", "-n", "-u", "--group", "--non-interactive", "--stdin", "--user"}
        ),
    ),
    "doas": Carrier("n", "uC", plain=False, harmless=frozenset({"-n", "-u"})),
    "nohup": Carrier(),
    "timeout": Carrier(
        "v",
        "sk",
        _long("foreground preserve-status verbose"),
        _long("signal kill-after"),
        operands=1,
        harmless=frozenset({"-v", "-s", "-k", "--foreground", "--preserve-status", "--verbose"})
        | frozenset({"--signal", "--kill-after"}),
    ),
    "nice": Carrier(
        "0123456789",
        "n",
        long_values=_long("adjustment"),
        harmless=frozenset({"-n", "--adjustment"}) | {f"-{digit}" for digit in range(10)},
    ),
    "ionice": Carrier("t", "cn", _long("ignore"), _long("class classdata"), harmless=frozenset({"-t", "-c", "-n"})),
    "time": Carrier(
        "pvaq",
        "of",
        _long("portability verbose append quiet"),
        _long("output format"),
        assignments=True,
        harmless=frozenset({"-p"}),
    ),
    "stdbuf": Carrier(values="ioe", long_values=_long("input output error"), harmless=frozenset({"-i", "-o", "-e"})),
    "setsid": Carrier("cfw", long_flags=_long("ctty fork wait"), harmless=frozenset({"-w", "--wait"})),
    "command": Carrier("p", asks="vV", harmless=frozenset({"-p"})),
    "builtin": Carrier(),
    "exec": Carrier("cl", "a"),
    "xargs": Carrier(
        "0rtxpo",
        "InLPsdEa",
        _long("null no-run-if-empty verbose exit interactive open-tty"),
        _long("max-args max-procs max-chars delimiter arg-file"),
        more=True,
        harmless=frozenset({"-0", "-r", "-t", "-x", "-I", "-n", "-L", "-P", "-s", "-d", "-E", "--null", "--exit"})
        | frozenset({"--no-run-if-empty", "--verbose", "--max-args", "--max-procs", "--max-chars"})
        | frozenset({"--delimiter"}),
    ),
    "busybox": Carrier(plain=False),
    "toybox": Carrier(plain=False),
    "caffeinate": Carrier("disum", "tw", harmless=frozenset({"-d", "-i", "-s", "-u", "-m", "-t"})),
    "unbuffer": Carrier("p", plain=False),
    "chronic": Carrier("ve", harmless=frozenset({"-v", "-e"})),
    "eatmydata": Carrier(),
    "catchsegv": Carrier(plain=False),
}

SHELLS = frozenset({"ash", "bash", "dash", "rbash", "sh"})
"""Shells with a ``-c`` that is parsed like the command line itself."""
SHELL_FLAGS = frozenset("abcefhklmnprtuvxBCEHPT")
SHELL_LONG_FLAGS = _long("norc noprofile posix login verbose restricted noediting")

INLINE: Mapping[str, str] = {
    "python": "c", "python2": "c", "python3": "c", "pypy": "c", "pypy3": "c", "perl": "eEnpmM", "ruby": "enp",
    "node": "epi", "nodejs": "epi", "bun": "ep", "php": "rBRE", "lua": "e", "luajit": "e", "tclsh": "", "r": "e",
    "rscript": "e", "julia": "eE", "swipl": "gt", "guile": "c", "osascript": "e",
}  # fmt: skip
"""Interpreters with the letters of the options that take code. Without a file they read code from their input."""
INLINE_LONG = frozenset({"--eval", "--print", "--execute", "--run", "--command"})

CODE: Mapping[str, str] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), r"system(?:\s|\\\r?\n)*\(|(?<!\|)\|(?!\|)|getline|@"),
    "test": r"[$`\[]", "wait": r"[$`\[]",
    "[": r"[$`]|.\[", "printf": r"^-v|[$`]\(", "read": r"[$`\[]", "export": r"[$`\[]",
    "readonly": r"[$`\[]", "local": r"[$`\[]",
    "sqlite3": r"(?im:^[ \t]*\.(?!(?:dump|headers?|help|indexes|mode|quit|schema|tables)\b)[a-z])|"
    r"(?i:\b(?:edit|load_extension)\b)",
    **dict.fromkeys(("pypy", "pypy3", "python", "python2", "python3"),
                    r"^(?:-m)?(?:asyncio|code|pdb|timeit)$|^-[bBdEIOPqsSuvx]*i"),
    "node": r"(?i:^\W*data:|=\W*data:)", "php": r"^data:|=data:", "cmake": r"^(?:-E|-P)",
    "git": r"(?i:^alias\.|^include(?:if)?\.|\.(?:askpass|clean|cmd|command|driver|editor|external|fsmonitor|gitproxy|"
    r"helper|hookspath|pager|process|program|receivepack|smudge|sshcommand|textconv|uploadpack|vcs)(?:=|$))|^ext::|^-O.|rename-section$|^help\.autocorrect",
    "less": r"^\+", "more": r"^\+", "most": r"^\+",
    **dict.fromkeys(
        ("make", "gmake"),
        r"!=|\$[({]|SHELL\w*\s*[:+?]*=|"
        r"^(?:-(?:|\w*f(?:-|stdin)|-\w+=-)$|-.*/(?:dev|proc)/|/[./]*(?:dev|proc)/|stdin$)",
    ),
}  # fmt: skip
"""Programs that run code in an argument, with a regular expression for such arguments."""

RUN = frozenset({"run"})

RUNS_OTHERS: Mapping[str, frozenset[str]] = {
    "git": frozenset(
        {"-c", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--extcmd", "-x", "--exec"}
        | {"--open-files-in-pager", "--template", "--sendmail-cmd"}
        | {"--to-cmd", "--cc-cmd", "--header-cmd", "--httpd"}
    )
    | {"foreach", "filter-branch", "run"},
    "tar": frozenset(
        {"--checkpoint-action", "--to-command", "-I", "--use-compress-program", "-F", "--rsh-command"}
        | {"--rmt-command", "--new-volume-script", "--info-script"}
    ),
    "rsync": frozenset({"-e", "--rsh", "--rsync-path"}),
    "zip": frozenset({"-TT", "--unzip-command"}),
    "sort": frozenset({"--compress-program"}),
    "tcpdump": frozenset({"-z"}),
    "make": frozenset({"--eval", "-E"}),
    "gmake": frozenset({"--eval", "-E"}),
    "go": frozenset({"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"}),
    "cargo": frozenset({"--config", "watch"}),
    **dict.fromkeys(
        ("c++", "cc", "clang", "clang++", "g++", "gcc"),
        frozenset({"-wrapper", "-specs", "--specs", "-fplugin", "--ld-path"}),
    ),
    "rustc": frozenset({"-C", "--codegen"}),
    "hg": frozenset({"--config"}),
    "svn": frozenset({"--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option"}),
    "cpio": frozenset({"--rsh-command"}),
    "wget": frozenset({"--use-askpass"}),
    "gpg": frozenset({"--agent-program", "--photo-viewer"}),
    "rpm": frozenset({"-E", "--eval", "-D", "--define"}),
    "fzf": frozenset({"--preview", "--bind"}),
    "pandoc": frozenset({"-F", "--filter", "--lua-filter", "--pdf-engine"}),
    "iptables": frozenset({"--modprobe"}),
    "split": frozenset({"--filter"}),
    "install": frozenset({"--strip-program"}),
    "scp": frozenset({"-S", "-o", "-F"}),
    "sftp": frozenset({"-S", "-o", "-F"}),
    "apt": frozenset({"-o", "-c", "--option", "--config-file"}),
    "apt-get": frozenset({"-o", "-c", "--option", "--config-file"}),
    "dpkg": frozenset({"--pre-invoke", "--post-invoke"}),
    "ip": frozenset({"exec"}),
    "jobs": frozenset({"-x"}),
    "man": frozenset({"-P", "-H", "--pager", "--html"}),
    "rg": frozenset({"--pre", "--hostname-bin"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
}
"""Programs with the options that make them run others. The beginning of a long option counts as the option."""

RUNS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "conda",
            "dotenv",
            "hatch",
            "mamba",
            "micromamba",
            "pdm",
            "pipenv",
            "pipx",
            "poetry",
            "rustup",
            "rye",
            "volta",
        ),
        RUN,
    ),
    **dict.fromkeys(("docker", "kubectl", "podman", "uv"), RUN | {"exec"}),
    "npm": frozenset({"dlx", "exec", "explore"}),
    **dict.fromkeys(("pnpm", "yarn"), frozenset({"dlx", "exec"})),
    **dict.fromkeys(("asdf", "bundle", "direnv", "fnm", "nvm", "pyenv", "rbenv", "tox"), frozenset({"exec"})),
    "mise": frozenset({"exec", "x"}),
    "nix": frozenset({"develop", "run", "shell"}),
}
"""Programs with the words behind which they run another program."""
RUN_NEXT: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("hatch", "pdm", "pipenv", "pipx", "poetry", "rye", "uv"), RUN),
    **dict.fromkeys(("npm", "pnpm", "yarn"), frozenset({"dlx", "exec"})),
    "bundle": frozenset({"exec"}),
}
"""Those of them whose next word is this program, unless it is an option."""
RUNS_PLAINLY = frozenset({"poetry", "uv"})
"""Those that start it themselves, without a shell."""
RUN_FIRST = frozenset({"bunx", "npx", "pnpx", "uvx"})
"""Programs whose first word is the program that they run, unless it is an option."""
WRITING: Mapping[str, str] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), r">|^-[A-Za-z]*[fiE]|^--(?:f|i|e|l)"),
    **dict.fromkeys(("c++", "cc", "clang", "clang++", "g++", "gcc"), r"@|-(?:B|[a-z]*plugin|wrapper)|--?specs"),
    "clang-format": r"-i|--i",
    "eslint": r"--(?:f|o|rulesdir|plugin|res|c)|-o|-c",
    "file": r"-\w*C|--comp",
    "find": r"-(?:delete|fls|fprint0?|fprintf)$",
    "git": r"--outp",
    "go": r"--?(?:o|\w*profile|trace|outputdir|exec|toolexec|vettool|modfile|overlay)(?:=|$)",
    **dict.fromkeys(("gmake", "make"), r"-\w*[fIE]|--(?:f|mak|inc|ev)"),
    **dict.fromkeys(("gofmt", "shfmt"), r"--?w"),
    **dict.fromkeys(("gsed", "sed"), r"-[nrEsuz]*i|--i"),
    "iconv": r"-\w*o|--o",
    "mypy": r"--(?:py\w*-e|junit|install|[\w-]*-report|cache-dir)",
    **dict.fromkeys(("nm", "objdump"), r"--pl"),
    "openssl": r"-\w*(?:out|CA|engine|provider|writerand)|@",
    "prettier": r"-\w*w|--(?:w|pl|c\w*-l)",
    "pytest": r"--(?:b|junit|log-f|deb|pdb|pas|report-log|resultl)",
    "rubocop": r"-\w*[aAo]|--(?:a|fix|o|r)",
    "ruff": r"--(?:fix|unsafe|o|add)|-o|format$|clean$",
    "shuf": r"-[ezr]*o|--o",
    "sort": r"-[bdfghiMnRrVcCmsuz]*o|--o",
    "tar": r"--ind",
    "tree": r"-\w*o",
}
"""Programs that mostly read or build, with a regular expression for the arguments by which they write a file of any
name, delete one, or run what a file of any name contains.
"""
SECOND_IS_WRITTEN = frozenset({"ptx", "uniq", "xxd"})
"""Programs that write the second file of their arguments."""
COPYING = frozenset({"cp", "install", "ln", "link", "mv"})
"""Programs that give a file another name."""

COMMAND_VARIABLES = frozenset(
    """
    BROWSER CVS_RSH EDITOR FCEDIT GIT_ASKPASS GIT_EDITOR GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND
    GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND LESSCLOSE LESSOPEN MANPAGER PAGER PROMPT_COMMAND PS0 PS4
    RSYNC_CONNECT_PROG RSYNC_RSH SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR SYSTEMD_PAGER VISUAL
    """.split()
)
"""Variables with a command line that some program or the shell runs."""
UNSURE_VARIABLES = frozenset(
    """
    AWKPATH BASH_ENV CDPATH GIT_EXEC_PATH GNUMAKEFLAGS HOME IFS JAVA_TOOL_OPTIONS LD_AUDIT LD_PRELOAD MAKEFILES
    MAKEFLAGS OLDPWD PERL5DB PERL5LIB PERL5OPT PWD PYTHONINSPECT PYTHONSTARTUP RIPGREP_CONFIG_PATH RUBYOPT TAR_OPTIONS
    TERMINFO XDG_CONFIG_DIRS XDG_CONFIG_HOME
    """.split()
)
"""Variables that make programs run code unknown to this parser, or that change expansions."""
UNSURE_BEGINNINGS = ("GIT_CONFIG", "NPM_CONFIG", "npm_config")
"""The beginnings of further ones."""
EXPORTING = frozenset({"export", "local", "readonly"})
"""Shell builtins that set variables."""
SETTING = EXPORTING | {"getopts", "read", "umask", "ulimit"}
"""Those that change something for all commands behind them."""

UNSURE = frozenset(
    """
    . alias at batch bind capsh chroot chrt complete coproc crontab csh dbus-run-session dc declare deno ed elvish emacs
    enable entr ex expect fakeroot firejail fish flock gdb ghc ghci hash hyperfine ksh ld.so let linux32 linux64 lldb
    ltrace mapfile mksh mysql nc ncat nodemon nsenter nu numactl nvim oksh parallel perf pkexec posh powershell prlimit
    proxychains proxychains4 psql pwsh readarray rlwrap rr runuser screen script set setarch setpriv shopt socat source
    ssh sshpass start-stop-daemon strace su systemd-run taskset tcsh tmux torify torsocks trap typeset unset unshare
    arch bwrap choom concurrently cpulimit cross-env dumb-init faketime gosu proot softlimit ssh-agent su-exec
    tini uclampset watchexec
    genv gnice gnohup gstdbuf gtime gtimeout gxargs nix-shell
    alacritty valgrind vi view vim watch xonsh xvfb-run yash zsh compgen fc gnome-terminal i386
    i486 i586 i686 kitty konsole newgrp run-parts sg uname26 uxterm x-terminal-emulator x86_64 xterm
    """.split()
)
"""Programs that run other commands in ways not parsed here, or change the meaning of the text after them."""

SKIPPED = frozenset({"!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "esac"})
"""Grammar words before or after a command that do not change the set of commands."""
GRAMMAR = frozenset({"case", "for", "function", "in", "select", "[["})
"""Grammar words that are not parsed."""

LETTERS: Mapping[str, Mapping[str, str]] = {
    "rm": {"recursive": "r", "R": "r", "force": "f"},
    "chmod": {"recursive": "R"},
    "chown": {"recursive": "R"},
    "cp": {"recursive": "r", "R": "r", "force": "f", "archive": "a"},
    "mv": {"force": "f"},
    "git": {"force": "f"},
    "ln": {"force": "f", "symbolic": "s"},
    "grep": {"recursive": "r"},
}
"""A program's options that equal one of its letters."""

_NPM = {
    **dict.fromkeys("add i in ins inst insta instal isnt isnta isntal isntall".split(), "install"),
    **dict.fromkeys("remove rm r un unlink".split(), "uninstall"),
    **dict.fromkeys("run-script rum urn".split(), "run"),
    **dict.fromkeys("up upgrade udpate".split(), "update"),
    **dict.fromkeys("t tst".split(), "test"),
    **dict.fromkeys("clean-install ic install-clean isntall-clean".split(), "ci"),
    "c": "config", "x": "exec",
}  # fmt: skip
NPM_NAMES: Mapping[str, Mapping[str, str]] = {"npm": _NPM}
"""Programs that accept the beginnings of their commands' names, with their other names."""

OPTION_VALUES: Mapping[str, frozenset[str]] = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source"}),
    "docker": frozenset({"-H", "--host", "--config", "--context", "-l", "--log-level"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s", "--server"}),
    "npm": frozenset({"--prefix", "-C", "-w", "--workspace"}),
    "pnpm": frozenset({"--dir", "-C", "--filter", "-F"}),
    "yarn": frozenset({"--cwd"}),
    "make": frozenset({"-C", "-f", "--directory", "--file", "--makefile", "-I", "-o", "-W"}),
    "cargo": frozenset({"--manifest-path", "--config", "-Z", "--color", "-C"}),
}
"""Options with a value in the next word. Rules do not count that word."""

# ------------------------------------------------------------------------------------ programs that keep to themselves

SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
"""Folders whose programs are those that these tables know by name."""

QUIET = frozenset(
    """
    : [ arch awk b2sum base32 base64 basename bc bg bunzip2 bzcat bzip2 cal cat cd chgrp chmod chown cksum clear
    cmp column comm continue cp cut date dd df diff dig dirname dirs dmesg dos2unix du echo egrep exit expand
    export expr factor false fg fgrep file find fmt fold free gawk getconf getent grep groups gsed gunzip
    gzip head hexdump hostname iconv id ifconfig jobs join jq kill killall last link ln local locale locate logname
    look ls lsblk lscpu lsof mawk md5sum mkdir mkfifo mktemp mv nawk netstat nl nm nproc nslookup numfmt objdump od
    paste pathchk pgrep ping pkill popd pr printenv printf ps ptx pushd pwd read readelf readlink readonly realpath
    return rev rm rmdir sed seq sha1sum sha224sum sha256sum sha384sum sha512sum shift shuf size sleep ss
    stat strings stty sum sync tac tail tee test times top touch tr tree true truncate tsort tty type ulimit
    umask uname unexpand uniq unix2dos unlink unzip uptime users vdir vmstat w wait wc whereis which who whoami xxd
    xz xzcat yes zcat zstd
    black clang-format gofmt hadolint isort ruff shellcheck shfmt
    """.split()
)
"""Programs that run nothing with any arguments, and those whose arguments other modules read: ``awk``,
``find``, ``sed``.
"""


@frozen
class OptionList:
    """Options with which a program runs nothing."""

    letters: str
    long: str = ""
    """Names without their dashes."""
    refused: str = ""
    """A text that no word may contain."""

    def covers(self, words: tuple[str | None, ...]) -> bool:
        """Return whether words have only these options."""
        for word in words:
            if word is None or (self.refused and self.refused in word):
                return False
            if word[:2] == "--":
                if len(word) > 2 and word[2:].partition("=")[0] not in self.long.split():
                    return False
            elif word[:1] == "-" and not set(self.letters).issuperset(word[1:]):
                return False
        return True


LISTED: Mapping[str, OptionList] = {
    "sort": OptionList(
        "bcdfghikmnorstuzCMRSTV0123456789.,",
        "check dictionary-order field-separator ignore-case key numeric-sort human-numeric-sort output reverse stable "
        "unique version-sort zero-terminated",
    ),
    "tar": OptionList(
        "cxtzjJvfpkOChmru",
        "auto-compress bzip2 create directory exclude extract file get gzip list strip-components verbose xz zstd",
        ":",
    ),
    "rg": OptionList(
        "0ABCFHILNPSUVacefgilmnoqrstuvwx123456789",
        "after-context before-context color column context count files files-with-matches files-without-match "
        "fixed-strings glob heading hidden iglob ignore-case invert-match json line-number max-count max-depth "
        "multiline no-filename no-heading no-ignore no-line-number only-matching pcre2 replace smart-case sort stats "
        "trim type type-not vimgrep with-filename word-regexp",
    ),
    "fd": OptionList(
        "0EFHILacdegipst0123456789", "absolute-path exclude extension follow glob hidden max-depth no-ignore type"
    ),
    "zip": OptionList("rqvjuyxi0123456789"),
    **dict.fromkeys(
        ("createdb", "dropdb", "pg_dump", "pg_dumpall", "pg_isready", "pg_restore"),
        OptionList(
            "1COTUWZacdfhjnpqstvwxEFN0123456789",
            "clean create data-only dbname exclude-table file format host if-exists jobs no-owner no-privileges port "
            "schema schema-only table username verbose",
            "=",
        ),
    ),
    "split": OptionList("abdelnx0123456789", "additional-suffix bytes lines number numeric-suffixes suffix-length"),
    "install": OptionList("DCTdgmotv0123456789", "directory group mode owner verbose"),
    **dict.fromkeys(("less", "more"), OptionList("EFMNRSXimnqs0123456789", "chop-long-lines raw-control-chars")),
    "rsync": OptionList(
        "avzrulptgoDnPhxcHAXiq", "archive checksum delete dry-run exclude include progress stats verbose", ":"
    ),
}
"""Programs that run nothing with some options, each with those."""

DEVELOPER = frozenset(
    """
    ansible ansible-playbook apk apt apt-cache apt-get aws az bazel brew buck bundle cargo cc celery clang
    clang++ clang-tidy cmake composer conda coverage cpack ctest curl dart dnf docker
    docker-compose dotnet dpkg eslint flake8 flutter g++ gcc gcloud gem gh git glab gmake go
    golangci-lint gradle gradlew gulp gunicorn hatch helm heroku http httpie https invoke java javac
    javadoc jest journalctl just k9s kubectl ld lerna make mamba meson mix mkdocs mocha mvn mvnw mypy netlify next
    ninja nox npm nvm nx openssl packer pacman pdm phpunit pip pip3 pipenv pipx playwright pnpm podman poetry
    pre-commit prettier prisma protoc pulumi pylint pyright pytest rails rake rbenv redis-cli rollup rspec rubocop
    rustc rustfmt rustup serverless service sphinx-build stack systemctl
    task terraform tofu tox tsc turbo uv uvicorn vagrant vercel virtualenv vite vitest webpack wget xcodebuild yarn
    yum zig
    """.split()
)
"""Tools whose arguments are names, paths and numbers. They may run a program that an argument names; they compose no
name from parts, except in a text with quotes, backslashes or dollar signs.
"""

_FORMATS = frozenset({"--filter", "--format"})
_LOG = frozenset("--after --author --before --committer --date --format --grep --pretty --since --until -G -S".split())
_LISTS = frozenset({"--format", "--sort"})
_GH = frozenset("-b -q -t --body --field --jq --json --notes --raw-field --search --template --title".split())
_KUBECTL = frozenset("-l -o --field-selector --output --selector --sort-by --template".split())
NOTES: Mapping[tuple[str, str], frozenset[str]] = {
    **dict.fromkeys((("git", "commit"), ("git", "merge"), ("git", "tag")), frozenset({"-m", "--message"})),
    **dict.fromkeys((("git", "log"), ("git", "rev-list"), ("git", "shortlog"), ("git", "show")), _LOG),
    **dict.fromkeys((("git", "branch"), ("git", "for-each-ref")), _LISTS),
    ("git", "stash"): frozenset({"-m", "--message"}),
    **dict.fromkeys(
        (("gh", "api"), ("gh", "issue"), ("gh", "pr"), ("gh", "release"), ("gh", "run"), ("gh", "search")),
        _GH,
    ),
    **{
        (program, command): _FORMATS | ({"-f"} if command in ("images", "inspect", "ps") else frozenset())
        for program in ("docker", "podman")
        for command in ("images", "info", "inspect", "ps", "search", "stats", "version")
    },
    **dict.fromkeys((("kubectl", "get"), ("kubectl", "version")), _KUBECTL),
    **dict.fromkeys((("go", "env"), ("go", "list")), frozenset({"-f"})),
}
"""Of subcommands: the options with a text for people."""
FILE_GLOBS = frozenset("eslint jest mocha prettier stylelint tsc".split())
"""Tools that expand braces in patterns of files."""
READING_DATA = frozenset(
    """
    apt-cache c++ cc clang clang++ clang-tidy curl dpkg eslint flake8 g++ gcc golangci-lint http https httpie javac jest
    ld mypy prettier protoc pyright pylint rubocop rustc rustfmt tsc wget yum
    """.split()
)
"""Those of ``DEVELOPER`` that run nothing that they read from their input."""
SUBCOMMANDS_READING_DATA: Mapping[str, frozenset[str]] = {
    "git": frozenset(
        """
        add am apply blame branch cat-file check-ignore checkout clean describe diff fetch for-each-ref grep hash-object
        init log ls-files ls-remote ls-tree merge-base mv name-rev patch-id push rev-list rev-parse reset restore rm
        show stash status switch symbolic-ref update-index worktree
        """.split()
    ),
    **dict.fromkeys(
        ("docker", "podman"), frozenset("build cp import images inspect load login logs ps pull push rm".split())
    ),
    "kubectl": frozenset("apply create delete describe diff get logs replace".split()),
    **dict.fromkeys(("npm", "pnpm", "yarn"), frozenset("install ci add ls outdated view".split())),
    **dict.fromkeys(("pip", "pip3"), frozenset("download freeze install list show uninstall".split())),
    "gh": frozenset("api auth issue pr release repo secret".split()),
    "cargo": frozenset("build check clippy doc fmt tree".split()),
    "go": frozenset("build fmt list mod vet".split()),
    "helm": frozenset("install template upgrade".split()),
    "terraform": frozenset("fmt plan validate".split()),
}
"""Subcommands of others that run nothing that they read from their input."""
HARMLESS_NAMES = frozenset("add branch checkout commit diff ls-files mv reset restore rm show stash status".split())
"""Subcommands of git that run nothing, whatever files they are given."""
WITHOUT_OUTPUT = HARMLESS_NAMES - {"diff", "show"}
"""Those of them that have no option for a file to write."""

RUNNERS = (
    SHELLS
    | CARRIERS.keys()
    | INLINE.keys()
    | UNSURE
    | RUN_FIRST
    | frozenset("awk docker eval find gawk git gmake gsed kubectl make mawk nawk podman sed tar uv".split())
) - {".", "r"}
"""Programs that run code, or the programs that their words name; without the names that most often mean others."""
ALSO_WORDS = frozenset(
    """
    alias arch at batch bind command complete concurrently declare docker dumb-init enable env exec expect find git hash
    let make nice parallel perf read screen script set source time timeout trap typeset unset unshare view watch
    """.split()
)
"""Those of them that are words of texts, too: commands only beside an option or a path."""

PREDICTABLE = frozenset("hostname nproc uname whoami".split())
"""Programs with an output that a command line can't choose."""
PREDICTABLE_LINES = (
    r"git describe(?: --(?:tags|always|dirty|long|abbrev=\d+))*"
    r"|git rev-parse(?: --short(?:=\d+)?| --abbrev-ref)? (?:HEAD|@)"
    r"|git branch --show-current|date(?: -u)?(?: \+(?:%[A-Za-z]|[-:/_.TZ])+)?|id -[gu]"
)
"""Commands with an output that a command line can't choose, if nothing before them writes a file."""
WRITING_NOTHING = frozenset({"[", "cd", "set", "test", "true"})
"""Commands that may precede them."""

SUBCOMMANDS: Mapping[str, int] = {
    **dict.fromkeys(
        """
        apt apt-get brew bundle cargo composer conda dotnet gh git go gradle helm just make mix mvn pip pip3 poetry
        rustup stack swift systemctl tox
        """.split(),
        1,
    ),
    **dict.fromkeys(("docker", "kubectl", "npm", "podman", "uv"), 1),
}
"""Programs whose next words describe the action, and how many."""
