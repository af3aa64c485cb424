"""Data on programs for the command line parser; extend it as needed.

A program missing from these tables is assumed to run only itself, and no program named in its arguments. That is not
true of every program. It is true of most that agents call, and no parser could know all others.
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
    more: bool = False
    """Whether the command gets more words than the line shows."""
    asks: str = ""
    """Letters of options that only print information and run nothing."""


def _long(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


CARRIERS: Mapping[str, Carrier] = {
    "env": Carrier("i0v", "uC", _long("ignore-environment null debug"), _long("unset chdir"), assignments=True),
    "sudo": Carrier(
        "EHnSbkKAPB",
        "ugpCrthTUDR",
        _long("preserve-env set-home non-interactive stdin background reset-timestamp askpass preserve-groups"),
        _long("user group prompt close-from role type host command-timeout other-user chdir chroot"),
        assignments=True,
        plain=False,
    ),
    "doas": Carrier("n", "uC", plain=False),
    "nohup": Carrier(),
    "timeout": Carrier("v", "sk", _long("foreground preserve-status verbose"), _long("signal kill-after"), operands=1),
    "nice": Carrier("0123456789", "n", long_values=_long("adjustment")),
    "ionice": Carrier("t", "cn", _long("ignore"), _long("class classdata")),
    "time": Carrier("pvaq", "of", _long("portability verbose append quiet"), _long("output format"), assignments=True),
    "stdbuf": Carrier(values="ioe", long_values=_long("input output error")),
    "setsid": Carrier("cfw", long_flags=_long("ctty fork wait")),
    "command": Carrier("p", asks="vV"),
    "builtin": Carrier(),
    "exec": Carrier("cl", "a"),
    "xargs": Carrier(
        "0rtxpo",
        "InLPsdEa",
        _long("null no-run-if-empty verbose exit interactive open-tty"),
        _long("max-args max-lines max-procs max-chars delimiter arg-file"),
        more=True,
    ),
    "busybox": Carrier(),
    "toybox": Carrier(),
    "caffeinate": Carrier("disum", "tw"),
    "unbuffer": Carrier("p"),
    "chronic": Carrier("ve"),
    "eatmydata": Carrier(),
    "catchsegv": Carrier(),
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
    "awk": r"system|\||getline|@", "gawk": r"system|\||getline|@", "mawk": r"system|\||getline",
    "nawk": r"system|\||getline",
    "test": r"[$`\[]", "[": r"[$`]|.\[", "printf": r"^-v|[$`]\(", "read": r"[$`\[]", "export": r"[$`\[]",
    "readonly": r"[$`\[]", "local": r"[$`\[]",
    "sqlite3": r"(?im:^\s*\.(?!(?:dump|headers?|help|indexes|mode|quit|schema|tables)\b)[a-z])|"
    r"(?i:\b(?:edit|load_extension)\s*\()",
    **dict.fromkeys(("pypy", "pypy3", "python", "python2", "python3"),
                    r"^(?:-m)?(?:asyncio|code|pdb|timeit)$|^-[bBdEIOPqsSuvx]*i"),
    "node": r"^data:|=data:", "php": r"^data:|=data:", "cmake": r"^(?:-E|-P)",
    "git": r"(?i:^alias\.|^include(?:if)?\.|\.(?:askpass|clean|cmd|command|driver|editor|external|fsmonitor|gitproxy|"
    r"helper|hookspath|pager|process|program|receivepack|smudge|sshcommand|textconv|uploadpack|vcs)$)|^ext::|^-O.",
    "less": r"^\+", "more": r"^\+", "most": r"^\+",
    "make": r"^(?:-f|--(?:make)?file=)?(?:-$|/dev/|/proc/)|^\.?SHELL\w*[:+?]*=|\$[({]shell",
    "gmake": r"^(?:-f|--(?:make)?file=)?(?:-$|/dev/|/proc/)|^\.?SHELL\w*[:+?]*=|\$[({]shell",
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
    "gcc": frozenset({"-wrapper"}),
    "g++": frozenset({"-wrapper"}),
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
    **dict.fromkeys(("conda", "hatch", "mamba", "micromamba", "pdm", "pipenv", "pipx", "poetry", "rye"), RUN),
    **dict.fromkeys(("docker", "kubectl", "podman", "uv"), RUN | {"exec"}),
    "npm": frozenset({"dlx", "exec", "explore", "--node-options", "--script-shell"}),
    "pnpm": frozenset({"dlx", "exec", "--node-options", "--script-shell"}),
    "yarn": frozenset({"dlx", "exec"}),
    **dict.fromkeys(("asdf", "fnm", "nvm", "pyenv", "rbenv", "tox"), frozenset({"exec"})),
    **dict.fromkeys(("dotenv", "rustup", "volta"), RUN),
    "bundle": frozenset({"exec"}),
    "direnv": frozenset({"exec"}),
    "mise": frozenset({"exec", "x"}),
    "nix": frozenset({"develop", "run", "shell"}),
}
"""Programs with the options that make them run others. The beginning of a long option counts as the option."""
BUNDLED = frozenset({"tar"})
"""Programs with a first word of option letters, with or without a ``-``."""

COMMAND_VARIABLES = frozenset(
    """
    BROWSER CVS_RSH EDITOR FCEDIT GIT_ASKPASS GIT_EDITOR GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND
    GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND LESSCLOSE LESSOPEN MANPAGER PAGER PROMPT_COMMAND PS0 PS4
    RSYNC_CONNECT_PROG RSYNC_RSH SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR SYSTEMD_PAGER VISUAL
    """.split()
)
"""Variables with a command line that some program or the shell runs."""
UNSURE_VARIABLES = frozenset("BASH_ENV GIT_EXEC_PATH GNUMAKEFLAGS LD_AUDIT LD_PRELOAD MAKEFLAGS TAR_OPTIONS".split())
"""Variables that make programs run code unknown to this parser, as do all that begin with ``GIT_CONFIG``."""
EXPORTING = frozenset({"export", "local", "readonly"})
"""Shell builtins that set variables."""

UNSURE = frozenset(
    """
    . alias at batch bind capsh chroot chrt complete coproc crontab csh dbus-run-session dc declare deno ed elvish emacs
    enable entr ex expect fakeroot firejail fish flock gdb ghc ghci hash hyperfine ksh ld.so let linux32 linux64 lldb
    ltrace mapfile mksh mysql nc ncat nodemon nsenter nu numactl nvim oksh parallel perf pkexec posh powershell prlimit
    proxychains proxychains4 psql pwsh readarray rlwrap rr runuser screen script set setarch setpriv shopt socat source
    ssh sshpass start-stop-daemon strace su systemd-run taskset tcsh tmux torify torsocks trap typeset unset unshare
    arch bwrap choom concurrently cpulimit cross-env dumb-init faketime gosu proot softlimit ssh-agent su-exec
    tini uclampset watchexec
    bunx genv gnice gnohup gstdbuf gtime gtimeout gxargs nix-shell npx pnpx uvx
    alacritty valgrind vi view vim watch xonsh xvfb-run yash zsh compgen fc gnome-terminal i386
    i486 i586 i686 kitty konsole newgrp run-parts sg uname26 uxterm x-terminal-emulator x86_64 xterm
    """.split()
)
"""Programs that run other commands in ways not parsed here, or change the meaning of the text after them."""

SKIPPED = frozenset({"!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}"})
"""Grammar words before or after a command that do not change the set of commands."""
GRAMMAR = frozenset({"case", "esac", "for", "function", "in", "select", "[["})
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
