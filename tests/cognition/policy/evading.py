"""Command lines that run others in ways the reader does not read, by kinds; to be added to as `hostile.py` is."""

from __future__ import annotations

from collections.abc import Mapping

from tests.cognition.policy.hostile import Kind, lines_of

REPOSITORY = (
    "git init -q . && git config user.email a@b && git config user.name a && git add a b && "
    "git commit -qm one && echo more >> a && git commit -qam two"
)
"""A script that makes a repository with two commits."""

OWN_WAYS: Mapping[str, Kind] = {
    "escaped line ends in a substitution": Kind(
        (
            'echo "$\\\n(curl x)"',
            '"$\\\n(curl x)"',
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "echo $\\\n'\\x63url'",
                "echo $(\\\n(1)); true",
            ),
            "is refused by its program; its words are read as if it weren't": ("(\\\n(1))",),
        },
    ),
    "start files of shells": Kind(
        (
            "PS4='$(curl x)' bash -xc :",
            "BASH_ENV=f bash -c :",
            "env BASH_ENV=f bash -c :",
        ),
        idle={
            "sets something for later commands": (
                "export BASH_ENV=f",
                'PROMPT_COMMAND="$X" true',
            ),
        },
        variables=(("X", "curl x"),),
    ),
    "pagers in a variable": Kind(
        ("PAGER=$X git log",),
        idle={
            "is refused by its program; its words are read as if it weren't": ("env PAGER=$X git log",),
            "sets something for later commands": ("export PAGER=$X",),
        },
        before=REPOSITORY + " && mkdir d && touch int && git add int && git commit -qm i",
        variables=(("X", "curl x"),),
        terminal=True,
    ),
    "assignments that are none to a shell": Kind(
        (
            "env 1A=x curl x",
            "env -- a-b=x curl x",
            "env =x curl x",
        ),
    ),
    "wrappers under another name": Kind(
        (
            "x86_64 curl x",
            "sg root 'curl x'",
            "gtimeout 3 curl x",
            "genv curl x",
        ),
        bash=(
            "compgen -C 'curl x' y",
            "compgen -W '$(curl x)'",
            "jobs -x curl x",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": ("newgrp root",),
            "is refused by its program; its words are read as if it weren't": (
                "run-parts /etc/cron.daily",
                "fc -e curl",
                "%1",
            ),
        },
    ),
    "pagers and editors": Kind(
        (
            "xterm -e curl x",
            "man -P 'curl x' ls",
            "fzf --preview 'curl x'",
            "man -P curl ls",
        ),
        terminal=True,
    ),
    "archives that run a program": Kind(
        (
            "split --filter='curl x' f",
            "split --filter 'curl x' f",
            "split --filt='curl x' f",
            "split --f='curl x' f",
            "tar cfI f 'curl x' a",
            "tar cf f --checkpoint=1 --checkpoint-actio=exec='curl x' a",
            "tar -cf f --use-compress=curl a",
            "tar -xf a '' --use-compress-program=curl",
            "pandoc --filter=curl x",
            "zip -T -TT 'curl x' a b",
            "sort -S 1 --compress-program curl a",
            "tar --use-compress-program=curl -xf a",
            "tar -xf a --checkpoint=1 --checkpoint-action=exec=curl",
            "split --filter curl f",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "sort --compress-pro=curl f",
                "tar -cMf a --info-script=curl b",
                "ZIPOPT='-TT curl' zip a b",
                "sort --compress-prog=curl a",
            ),
            "needs another host, or more rights": ("tar --rmt-command=curl -xf h:x",),
            "is refused by its program; its words are read as if it weren't": ("patch --ed=curl",),
        },
        before="/real/tar cf q b; cat q > a",
    ),
    "redirections to a text that bash expands": Kind(
        bash=(
            "true >&'$(curl x)'",
            "true 1>&'$(curl x)'",
            "true >& 'x`curl x`'",
            "true >&2'$(curl x)'",
            'true >&"\\$(curl x)"',
            "true >&\\$\\(curl\\)",
            "(true) >&'$(curl x)'",
            "exec >&'${X:-$(curl x)}'",
            "true >&'<(curl x)'",
        ),
    ),
    "sed without a blank before its code": Kind(
        (
            "sed '1ecurl x' f",
            "sed 'ecurl x' f",
            "sed -e'1ecurl x' f",
            "sed -e '1ecurl x' f",
            "sed -ne1ecurl f",
            "sed '$ecurl x' f",
            "sed '/./ecurl x' f",
            "sed '/./{ecurl x\n}' f",
            "sed '1,2ecurl x' f",
            "sed ':a;ecurl x' f",
            "sed 's/a/b/;ecurl x' f",
            "sed -n 'ecurl x' f",
            "sed --expression=ecurl\\ x f",
            "sed --expr 'ecurl x' f",
            "sed 1ecurl f",
            "sed y/a/b/\\;ecurl f",
            'sed "1ecurl x" f',
            "sed '/x/I ecurl x' f",
            "sed 's/.*/curl x/ge' f",
            "sed 'sx.*xcurlxe' f",
            "sed 's/.*/curl x/\ne' f",
            "sed 's/[/]/a/;1ecurl x' f",
            "sed -l 5 '1ecurl x' f",
            "sed -- '1ecurl x' f",
            "sed -i.bak '1ecurl x' f",
            "sed -ie '1ecurl x' f",
            "sed -s -n '1ecurl x' f",
            "gsed 1ecurl f",
            "sed --expression='1ecurl =' f",
            "sed '/x/Ie curl x' f",
            "sed '\\%x%e curl x' f",
            "sed 'a\necurl x' f",
            "sed 'i x\necurl x' f",
            "sed 's x y e' f",
            "sed 's/[/]/x/;ecurl x' f",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "sed '\\xaxecurl x' f",
                "sed 's/a/b/2 e' f",
                "sed '/[/]/ecurl x' f",
            ),
            "is refused by its program; its words are read as if it weren't": (
                "sed ep f",
                "sed 's e curl x e' f",
            ),
        },
    ),
    "sed from a file": Kind(
        (
            "sed -f x f",
            "sed --file=x f",
            "sed -nf x f",
            "sed --fil=x f",
        ),
        before="printf '1e curl x\n' > x",
    ),
    "clones by another program": Kind(
        (
            "git clone -u 'curl x' a b",
            "git clone -qu 'curl x' a b",
            "git clone -ucurl a b",
            "git -C d clone -u curl a b",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("git clone --template=/x a b",),
        },
        before=(
            "mkdir d; for one in a d/a; do /real/rm -f $one; git init -q $one; "
            "git -C $one config user.email a@b; git -C $one config user.name a; "
            "git -C $one commit -qm a --allow-empty; done; /real/rm -f b"
        ),
    ),
    "git that runs a text": Kind(
        (
            "git push --e='curl x;' ../b.git HEAD",
            "git grep --open-files-in-pager=curl x",
            "git grep --open=curl x",
            "git grep -Ocurl x",
            "git ls-remote --upload-pa='curl x' .",
            "git -c core.pager='curl x' log",
        ),
        idle={
            "names a program that is not installed": (
                "git send-email --sendmail-cmd='curl x'",
                "git send-email --to-cmd='curl x' a",
            ),
            "needs another host, or more rights": ("git ls-remote 'ext::curl x'",),
            "is refused by its program; its words are read as if it weren't": (
                "git -p --exec-pat=/x y",
                "git grep -Ocu*",
                "git grep -O curl",
                "git grep -m -Ocurl x",
                "git log -m -Ocurl",
                "echo curl x | git remote-ext o sh",
            ),
            "does nothing with these files and words; the reader doesn't know that": (
                "git difftool -x curl",
                "echo curl x | git grep -nO'sh -s' int",
            ),
        },
        before=REPOSITORY + " && mkdir d && touch int && git add int && git commit -qm i",
        terminal=True,
    ),
    "code and queries that run others": Kind(
        (
            "python3 -c 'import os; os.system(\"curl x\")'",
            'python3 -c \'__import__("os").system("curl x")\'',
            "python3 -c 'import os as json; json.system(\"curl x\")'",
            "python3 -c 'from os import system as print; print(\"curl x\")'",
            'python3 -c \'import json; json.codecs.builtins.__import__("os").system("curl x")\'',
            'python3 -c \'list(map(eval, ["__import__(\\"os\\").system(\\"curl x\\")"]))\'',
            "python3 -c 'import wrap' curl x",
            "perl -pe 's/.*/`curl x`/e' f",
            "perl -pe 's/@{[`curl x`]}/b/' f",
            "perl -pe 's/a/b/' 'curl x|'",
            "perl -ne 'print if /a/; system \"curl x\"' f",
            "sqlite3 :memory: '.shell curl x'",
            "sqlite3 :memory: \"select edit('a','curl x')\"",
            "sqlite3 :memory: 'select 1' '.system curl x'",
            "sqlite3 :memory: '.once |curl x' 'select 1'",
            "echo '.shell curl x' | sqlite3 :memory:",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "sqlite3 :memory: \"select load_extension('curl')\"",
            ),
            "names a program that is not installed": (
                "psql -c '\\! curl x'",
                "psql -c \"copy t to program 'curl x'\"",
                "psql -c \"select f('curl x')\"",
                "psql -o '|curl x' -c 'select 1'",
                "PSQL_PAGER='curl x' psql -c 'select 1'",
                "echo '\\! curl x' | psql",
                "mysql -e '\\! curl x'",
                "mysql -e 'system curl x'",
                "mysql -e 'select 1\nsystem curl x'",
                "mysql --pager='curl x' -e 'select 1'",
                "tmux new -s a curl x",
                "tmux send-keys 'curl x' Enter",
                "strace -o '|curl x' ls",
                "strace -E PATH=sub ls",
                "valgrind --log-file=x curl x",
                "hyperfine ls --prepare 'curl x'",
                "hyperfine -S curl ls",
                "deno run https://a.b/curl.ts",
                "convert '|curl x' a.png",
            ),
        },
        before="printf 'import sys, subprocess; subprocess.call(sys.argv[1:])' > wrap.py",
    ),
    "wrappers with other options": Kind(
        (
            "echo curl x > .env; . ./.env; make CC=$X curl",
            "docker exec c sh",
            "docker run --rm alpine curl x",
            "docker run --entrypoint curl alpine x",
            "kubectl exec p -- sh",
            "kubectl exec p curl x",
            "uv run ./wrap.sh curl x",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "ssh -o ProxyCommand='curl x' host ls",
                "docker run curlimages/curl x",
                "ssh host -o ProxyCommand='curl x' ls",
                "ssh -F f host ls",
                "docker exec -e A=curl c ls",
                "ssh host",
            ),
        },
        given="curl x\n",
    ),
    "copies to other hosts": Kind(
        (
            "scp -S curl x h:y",
            "sftp -S curl h",
            "rsync --rs='curl x' h:x y",
            "ssh-agent curl x",
            "sftp -D curl",
            "rsync a 'host:$(curl x)'",
        ),
        idle={
            "needs another host, or more rights": (
                "scp -oProxyCommand='curl x' f h:",
                "ssh-keyscan -f curl x",
            ),
        },
    ),
    "options of package managers": Kind(
        (
            "install -s --strip-program=curl a b",
            "dpkg --pre-invoke='curl x' -i y",
            "pipenv run curl",
            "pipx run curl",
            "echo curl x | pip config --editor 'sh -s' edit",
        ),
        idle={
            "needs another host, or more rights": (
                "apt-get -o APT::Update::Pre-Invoke::=curl update",
                "ip netns exec x curl y",
            ),
            "is not a whole command to one of the shells, or has a fault at its end": ("rpm --eval '%(curl x)'",),
        },
    ),
    "editors that don't end": Kind(
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "less '+!curl x' f",
                "vim +curl",
            ),
        },
        terminal=True,
        seconds=0.3,
    ),
    "git settings": Kind(
        other=(
            "git config alias.x '!curl x'",
            "git config --global core.fsmonitor 'curl x'",
            "git config core.sshCommand 'curl x'",
            "git config credential.helper '!curl x'",
            "git config help.autocorrect immediate",
        ),
        idle={
            "sets something for later commands": ("git config --rename-section foo alias",),
        },
        before=REPOSITORY + " && mkdir d && touch int && git add int && git commit -qm i",
    ),
    "make and its input": Kind(
        (
            "printf 'x:\\n\\tcurl x\\n' | make -f -",
            "printf 'x:\\n\\tcurl x\\n' | make -f-",
            "make -f /dev/stdin",
            "make --file=- x",
            "make -f -",
            "echo curl | xargs make -f",
            "echo 'a:;curl' | make -sf-",
            "echo 'a:;curl' | make -sf/dev/stdin",
            "echo 'a:;curl' | make --fi=-",
            "make 'CC=tar -Icurl -cf x.tar a.c #' a.o",
        ),
        idle={
            "is not a whole command to one of the shells, or has a fault at its end": ("make -f <(echo)",),
            "runs code, but code that does nothing": (
                "(cd /dev && echo x | make -f stdin)",
                "echo x | make -C / -f dev/stdin",
                "echo x | MAKEFILES=/dev/stdin make a",
            ),
        },
        before="/real/rm x a; printf 'x:\\n\\tcurl x\\n' > curl",
        given="x:\n\tcurl x\n",
    ),
    "make's variables and options": Kind(
        (
            "make SHELL=curl",
            "cmake -E env curl x",
            "make x='$(shell curl x)'",
            "make CC='curl x #'",
            "make CC='c\"\"url x'",
            "make SHELL=/usr/bin/curl",
            "make CC='[c]url x'",
            "make 'CC=echo kurl x | tr k c | sh #' a.o",
            "make 'CC=perl -esystem+curl #' a.o",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": ("make -E 'x:;curl x'",),
            "is refused by its program; its words are read as if it weren't": ("make 'X!=echo kurl x|tr k c|sh' a.o",),
        },
    ),
    "closed descriptors before a name": Kind(
        bash=(
            ">&-curl x",
            "<&-curl x",
            "2>&-curl x",
            ">&\\\n-curl x",
            ">&-$X",
        ),
        variables=(("X", "curl x"),),
    ),
    "programs that start others of a project": Kind(
        (
            "uv run curl x",
            "poetry run curl x",
            "bundle exec curl",
            "conda run curl",
            "direnv exec . curl",
            "docker exec c curl x",
            "docker run --rm i curl x",
            "kubectl exec p -- curl",
            "nix-shell --run 'curl x'",
            "nix run curl",
            "mise x curl",
            "uvx curl",
            "svn diff --diff-cmd=curl",
            "pyenv exec curl x",
            "rustup run stable curl x",
            "cross-env A=b curl x",
            "tini -- curl x",
            "docker-compose run ./cu*",
            "docker-compose run curl",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("hg --config alias.x='!curl x' x",),
        },
    ),
    "npm and its programs": Kind(
        (
            "npx curl x",
            "npm exec curl x",
            "pnpm dlx curl",
            "npm run x --script-shell=curl",
            "npm exec curl",
            "npx curl",
            "echo curl x | npm x -c sh",
            "npm x -c 'echo kurl x|tr k c|sh'",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("npm explore x -- curl",),
            "does nothing with these files and words; the reader doesn't know that": (
                "npm pkg set scripts.y='echo kurl x|tr k c|sh'",
            ),
            "runs code, but code that does nothing": (
                "NODE_OPTIONS=--import=data:text/javascript,x%28%22cu%72l npm -v",
            ),
        },
        seconds=20.0,
    ),
    "compilers and their options": Kind(
        (
            "go test -exec 'curl x' ./...",
            "go test --exec=curl ./...",
            "go build -toolexec 'curl x' .",
            "cargo watch -x curl",
            "gcc -wrapper curl a.c",
            "cc -wrapper curl,x a.c",
            "go test -exec curl",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": (
                "go vet -vettool=/usr/bin/curl .",
                "cargo build --config 'build.rustc=\"curl\"'",
                "rustc -Clinker=curl a.rs",
                "cargo run --config 'target.runner=\"curl\"'",
            ),
        },
        before="echo 'int main(){}' > a.c",
    ),
    "Python on its input": Kind(
        (
            "python -m timeit 'import os; os.system(\"curl x\")'",
            "python3 - a",
            "python3 -u /dev/stdin",
            "python3 //dev/stdin",
            "python3 /./dev/../dev/stdin",
            "python3 -u",
            "python3 -W ignore -",
            "cd /dev && python3 stdin",
            "python3 wrap.py curl x",
            "python3 -m wrap curl",
        ),
        idle={
            "runs code, but code that does nothing": (
                "echo x | python3 -mcode",
                "echo x | python -Ei x.py",
            ),
        },
        given="import os\nos.system('curl x')\n",
    ),
    "other interpreters": Kind(
        (
            "node wrap.js curl",
            "PERL5OPT='-Mre;system(q(cur).q(l))' shasum a.c",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": (
                "perl '-MO;`curl x`' a.pl",
                "PERL5OPT='-Mx=curl' perl a.pl",
            ),
            "runs code, but code that does nothing": ("php -d auto_prepend_file=data:x a.php",),
        },
        before="touch a.pl a.js",
    ),
    "node on its input": Kind(
        ("node -",),
        idle={
            "runs code, but code that does nothing": (
                "node --import=data:text/javascript,x a.js",
                "node --import data:text/javascript,x a.js",
            ),
        },
        before="echo > a.js",
        given="require('child_process').spawnSync('curl')\n",
    ),
    "sqlite3 and its commands": Kind(
        (
            "sqlite3 x '.sh curl x'",
            "sqlite3 x \"SELECT edit('x', 'curl')\"",
            "echo '.shell curl x' | sqlite3",
            "sqlite3 :memory: 'select edit--\n(1,char(99,117,114,108))'",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("sqlite3 x '.read |curl x'",),
        },
        before="/real/rm x",
    ),
    "options that name a program": Kind(
        (
            "rg --hostname-bin=curl x",
            "debconf curl x",
            "debconf -o x curl",
            "gpg-agent --daemon curl x",
            "pytest -p curl",
            "mail -s curl x",
            "script-runner --cmd=$(cat f)",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("ldd curl",),
        },
        before="echo curl > f",
    ),
    "perl on its input": Kind(
        ("perl -w /dev/stdin",),
        given="system 'curl x';\n",
    ),
    "awk on its input": Kind(
        (
            "awk -f - in",
            "awk -f/dev/stdin in",
            "awk -v a=b -f - in",
            "(cd /proc/self; echo x | awk -f fd/0)",
        ),
        idle={
            "runs code, but code that does nothing": (
                "gawk -e 'BEGIN {}'",
                "cd /dev && echo x | awk -f stdin",
                "cd / && echo x | awk -f dev/stdin",
                "echo x | AWKPATH=/dev gawk -f stdin",
            ),
            "names a program that is not installed": ("gawk --exec=- in",),
        },
        given='BEGIN { system("curl x") }\n',
    ),
    "a shell on its input": Kind(
        (
            "bash //dev/stdin",
            "bash /proc/self/fd/0",
            "cd /dev; bash stdin",
            "cd / && bash dev/../dev/stdin",
            "bash -c + 'curl x'",
            "cd /; echo curl x |\nbash dev/stdin",
        ),
        bash=("pushd /proc/self/fd && sh 0",),
        given="curl x\n",
    ),
    "an unknown program on its input": Kind(
        (
            "cat x | unknown",
            "unknown < x",
            "cat x | (true; unknown)",
            "cat x | while true; do unknown; done",
            "while true; do unknown; done < x",
            "(unknown) < x",
            "cat x | sh -c unknown",
            "cat x | env unknown",
            "unknown < x; (true; /opt/ls) < x",
        ),
        bash=("unknown <<< 'curl x'",),
        idle={
            "is refused by its program; its words are read as if it weren't": (
                "unknown <<E\na\nE",
                "true; (/opt/ls) < x",
            ),
            "runs code, but code that does nothing": ("echo x | ninja -f/dev/stdin",),
        },
        given="curl x\n",
    ),
    "descriptions of another reading": Kind(
        ("sh -c 'true &>/dev/null curl x'",),
        dash=(
            "true &>/dev/null curl x",
            "true &>> x curl x",
        ),
    ),
    "find whose tests look like actions": Kind(
        (
            "find . ! -name -exec -exec curl x \\;",
            "find -D exec . -exec curl x \\;",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "find . -name -exec -exec curl x \\;",
            ),
            "is refused by its program; its words are read as if it weren't": ("find . -newerXY x -exec curl x \\;",),
        },
    ),
    "make's variables from the shell": Kind(
        (
            "make CC=$(echo curl)",
            "X=$(echo curl); make CC=$X",
            "X=curl; make CC=$X",
            "read X < f; make CC=$X",
            "for x in curl; do make CC=$x; done",
            "for x in $(cat f); do make CC=$x; done",
            "make CC=cu${X}rl",
            "make CC=cu*",
            "make CC=c?rl",
            "make CC=*",
            "CC='echo kurl x | tr k c | sh #' make -e a.o",
            "make CC=-curl a.o",
            "make CC=+curl a.o",
            "for i in cu; do b=${i}rl; make CC=$b a.o; done",
            "export CC=$(echo cu)rl; make a.o",
            "export a=cu; export CC=${a}rl; make a.o",
            "CC=$(echo cu)rl make a.o",
            "echo curl | { read CC; export CC; make a.o; }",
            "sh -c 'make CC=$1 a.o' _ curl",
            "env sh -c 'make CC=$1 a.o' _ curl",
        ),
        bash=(
            "make CC=cu{,r}l a.o",
            "make CC=cur{l..l} a.o",
            "read CC <<< curl; export CC; make a.o",
            ": curl; make CC=$_ a.o",
        ),
        before="printf curl > f; touch 'CC=curl'",
    ),
    "an unknown program and its words": Kind(
        (
            "unknown curl x",
            "unknown ./curl x",
            "unknown /usr/bin/CURL x",
            "unknown --run=curl",
            "unknown -xcurl",
            "unknown +curl",
            "unknown 'sh -c curl'",
            "unknown curl.exe",
            "unknown 'c\"u\"rl x'",
            "unknown 'cu\\rl x'",
            "./ls curl",
            "bash wrap.sh curl x",
        ),
        bash=("time -p X='curl x'; wrap $X",),
        idle={
            "is not a whole command to one of the shells, or has a fault at its end": (
                "unknown 'exec(bytes([99,117,114,108]))'",
            ),
            "names no program here; a system that overlooks or changes a letter may find one": ("unknown \uff43url",),
            "is refused by its program; its words are read as if it weren't": (
                "/tmp/ls curl",
                "bin/grep curl",
            ),
        },
    ),
    "an unknown program and hidden words": Kind(
        (
            "unknown 'c{u,}rl x'",
            "unknown $X$Y",
            "unknown $(echo curl)",
            "unknown `echo curl`",
            "unknown cu*",
        ),
        idle={
            "is refused by its program; its words are read as if it weren't": ("unknown a$X",),
        },
        variables=(("X", "curl"),),
    ),
    "vim on its input": Kind(
        ("exec <<'E'\n!curl x\nE\nvim.basic -es",),
        bash=(
            "exec <<< '!curl x'; vim.basic -es",
            "exec < <(echo '!curl x'); vim.basic -es",
            "tee >(vim.basic -es) <<< '!curl x'",
        ),
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "printf '!curl x' |\nvim.basic -es",
                "printf '!curl x' |\n\n{ vim.basic -es; }",
                "printf '!curl x' | # c\nvim.basic -es",
            ),
        },
    ),
    "text composed without quotes": Kind(
        (
            "logsave - bash -c 'echo kurl x|tr k c|sh'",
            "logsave - perl -e 'system scalar reverse q/lruc/'",
            "a=cu; b=${a}rl; logsave - $b x",
            "sh -c 'logsave - \"$@\"' _ curl x",
            "getopts c: o -ccurl; logsave - $OPTARG x",
            "IFS=_; a=-_curl_x; logsave $a",
        ),
        bash=(
            "a=cu; a+=rl; logsave - $a x",
            ": curl; logsave - $_ x",
        ),
    ),
    "editors of git": Kind(
        idle={
            "does nothing with these files and words; the reader doesn't know that": (
                "echo curl | { read GIT_EDITOR; export GIT_EDITOR; git commit; }",
            ),
        },
        before=REPOSITORY + " && mkdir d && touch int && git add int && git commit -qm i",
    ),
    "variables with part of a name": Kind(
        ("HOME=$(printf /usr/bin/cu%s rl); ~ x",),
        bash=(
            "read HOME <<< /usr/bin/curl; ~ x",
            "PWD=/usr/bin/curl; ~+ x",
            "sleep 0 & wait -n -p 'a[$(curl x)]'",
        ),
    ),
}
"""Each would run a command without a rule for it, if the reader trusted its first word."""

TRICKS: Mapping[str, Kind] = {
    "sed scripts with unusual addresses": Kind(
        (
            "sed '1~2ecurl x' f",
            "sed '1!{2ecurl x\n};1ecurl x' f",
            "sed '0,/x/ecurl x' f",
            "sed '/x/,+1ecurl x' f",
            "sed '/x/,~2ecurl x' f",
            "sed '/x/I,/y/Iecurl x' f",
            "sed '\\,x,ecurl x' f",
            "sed '1{;ecurl x\n}' f",
            "sed '1\te curl x' f",
            "sed '#n\n1ecurl x' f",
            "sed 'bx;:x;ecurl x' f",
            "sed 'F;ecurl x' f",
            "sed 'v 4.2;ecurl x' f",
            "sed 'z;ecurl x' f",
            "sed 'l 5;ecurl x' f",
            "sed 's/\\//x/;ecurl x' f",
        ),
    ),
    "options read as in POSIX": Kind(
        (
            "POSIXLY_CORRECT=1 sed '1ecurl x' -e p f",
            "export POSIXLY_CORRECT=1; sed 1ecurl -e p f",
            "env POSIXLY_CORRECT=1 sed 1ecurl -n f",
            "POSIXLY_CORRECT=1 sed 1ecurl --expression=p f",
        ),
    ),
    "awk's words apart from their brackets": Kind(
        (
            "echo 'BEGIN { system(\"curl x\") }' | mawk -W exec /dev/stdin",
            "echo 'BEGIN { system(\"curl x\") }' | mawk -We /dev/stdin",
            'awk \'BEGIN { printf "x" |"curl" }\'',
            "awk 'BEGIN { c = \"curl\"; c\\\n| getline }'",
            'awk \'BEGIN { print "curl x" | "sh" }\'',
            "awk '{ print | \"sh\" }' f",
            "awk -vc=curl 'BEGIN { system(c) }'",
            "awk 'BEGIN { while ((\"curl x\" | getline l) > 0); }'",
            "awk -- 'BEGIN { system(\"curl x\") }'",
            "awk 'function f(c) { system(c) } BEGIN { f(\"curl\") }'",
            "awk 'BEGIN { system(ENVIRON[\"X\"]) }'",
            "awk 'BEGIN { system\\\r\n(\"curl x\") }'",
        ),
        variables=(("X", "curl x"),),
    ),
    "find with several -exec": Kind(
        (
            "find . -exec true \\; -exec curl {} \\;",
            "find . -exec echo {} + -exec curl {} +",
            "find . -false -o -exec curl x \\;",
            "find . -name ';' -o -exec curl x ';'",
            "find . -exec true + {} ';' -exec curl x ';'",
            "find . -regex -exec -o -exec curl x ';'",
            "find . -printf -exec -exec curl x ';'",
            "find . -fprintf o %p -exec curl x ';'",
            "find . '-exec' curl x ';'",
            "find . -ex''ec curl x ';'",
            "find . \\( -exec curl x ';' \\)",
            "find . ! -exec curl x ';'",
            "find . , -exec curl x ';'",
            "find . -type f , -exec curl x ';'",
            "yes | find . -ok curl {} \\;",
            "yes | find . -okdir curl {} \\;",
        ),
    ),
    "the start file of a shell": Kind(
        (
            "ENV=f sh -ic :",
            "ENV='$(curl x)' sh -ic :",
            "ENV=./f dash -i -c true",
            "env ENV=f sh -ic :",
            "export ENV=f; sh -ic :",
            "ENV=/srv/app/f sh -ci true",
            "BASH_ENV='$(curl x)' bash -c :",
            "bash --rcfile f -ic :",
            "bash --init-file f -ic :",
            "export BASH_ENV=$PWD/f; bash -c :",
            "PS1='$(curl x)' bash --norc -i",
            "env 'BASH_FUNC_ls%%=() { curl x; }' bash -c ls",
            "env 'BASH_FUNC_x%%=() { curl x; }' bash -c x",
        ),
    ),
    "optional values of options": Kind(
        (
            "echo x | xargs --max-lines curl x",
            "echo x | xargs -l curl",
            "echo x | xargs -i curl {}",
            "echo x | xargs -e curl",
            "echo x | xargs --replace curl {}",
            "echo x | xargs --eof curl",
            "echo x | xargs --max-l curl",
            "echo x | xargs -l1 curl",
            "echo x | xargs --max-lines=1 curl",
            "echo x | xargs -n1 -L 1 curl",
            "echo x | xargs --max-lines rm -rf",
            "echo x | xargs --max-lines git push",
            "env --block-signal curl x",
            "env --default-signal curl x",
            "env --ignore-signal=INT curl x",
        ),
    ),
    "a shell's options before its code": Kind(
        (
            "bash -c -c 'curl x'",
            "bash -c -x 'curl x'",
            "sh -ce 'curl x'",
            "sh -c -e 'curl x'",
            "bash -c -o pipefail 'curl x'",
            "bash -co pipefail 'curl x'",
            "bash -oc pipefail 'curl x'",
            "bash -O extglob -c 'curl x'",
            "bash -cO extglob 'curl x'",
            "bash +O extglob -c 'curl x'",
            "bash -c - 'curl x'",
            "sh -c - 'curl x'",
            "dash -c + 'curl x'",
            "bash -sc 'curl x'",
            "bash -pc 'curl x'",
            "bash --posix -c 'curl x'",
        ),
    ),
    "git options in one word": Kind(
        (
            "git rebase -qx 'echo kurl x|tr k c|sh' HEAD~1",
            "git rebase HEAD~1 -vx 'echo kurl x|tr k c|sh'",
            "git rebase --ex='echo kurl x|tr k c|sh' HEAD~1",
            "git difftool -yx 'echo kurl x|tr k c|sh' HEAD~1",
            "git difftool -yx'echo kurl x|tr k c|sh' HEAD~1",
            "git bisect start HEAD HEAD~1; git bisect run sh -c curl",
            "git grep -nO'echo kurl x|tr k c|sh #' more",
            "git grep -lO'echo kurl x|tr k c|sh #' more",
            "git grep -nOcurl more",
            "git rebase -kx 'echo kurl x|tr k c|sh' HEAD~1",
        ),
        before=REPOSITORY,
    ),
    "git settings that run programs": Kind(
        (
            "git config core.pager 'echo kurl x|tr k c|sh'; git -p log",
            "git config --add pager.log 'echo kurl x|tr k c|sh'; git log",
            "git config diff.external 'echo kurl x|tr k c|sh'; echo z >> a; git diff",
            "git config sequence.editor 'echo kurl x|tr k c|sh #'; git rebase -i HEAD~1",
            "git config filter.q.clean 'echo kurl x|tr k c|sh'; echo '* filter=q' > .gitattributes; git add a b f",
            "git config core.sshCommand 'echo kurl x|tr k c|sh #'; git ls-remote ssh://h/x",
            "git config trailer.q.command 'echo kurl x|tr k c|sh'; echo x | git interpret-trailers --trailer q=1",
            "git config difftool.q.cmd 'echo kurl x|tr k c|sh'; git difftool -y -t q HEAD~1",
            "git config browser.q.cmd 'echo kurl x|tr k c|sh; true'; git web--browse -b q x",
            "git config alias.q '!echo kurl x|tr k c|sh'; git q",
            "git config tar.q.command 'echo kurl x|tr k c|sh'; git archive --format=q HEAD",
        ),
        before=REPOSITORY,
        terminal=True,
    ),
    "git push behind global options": Kind(
        (
            "git --literal-pathspecs push",
            "git --glob-pathspecs push",
            "git --icase-pathspecs push",
            "git --no-replace-objects push",
            "git --no-optional-locks push",
            "git -P push",
            "git -p push",
            "git --bare push",
            "git --namespace x push",
            "git --namespace=x push",
            "git --work-tree . push",
            "git --git-dir .git push",
            "git --exec-path=/usr/lib/git-core push",
            "git pu''sh",
            "git 'push'",
            "git pus\\h",
        ),
        before=REPOSITORY + "; mkdir 'a b'; touch push; echo push > w",
    ),
    "removal in other spellings": Kind(
        (
            "rm --r --f x",
            "rm -r --f x",
            "rm --no-preserve-root -rf x",
            "rm -rf --one-file-system x",
            "rm -dfr x",
            "rm -Irf x",
            "rm -fir x",
            "rm -r$(echo f) x",
            "rm -r${Y}f x",
            "X=-rf; rm $X x",
            'set -- -rf; rm "$@" x',
            "echo -rf x | xargs rm",
            "printf '%s\\n' -rf | xargs rm x",
        ),
        bash=(
            "rm {-r,-f} x",
            "rm -{r,f} x",
            "rm $'-rf' x",
        ),
        before="touch -- -f; echo -f > w",
    ),
    "words that bash or dash alone reads as commands": Kind(
        (
            "((a)) || curl x",
            "for x in a b\ndo curl x; done",
            "set -- a; for x; do curl x; done",
            "f() (curl x); f",
        ),
        bash=(
            "for x in a; { curl x; }",
            "for ((;;)) { curl x; break; }",
            "for ((i=0;i<1;i++)); do curl x; done",
            "function f() { curl x; }; f",
            "function f { curl x; }\nf",
        ),
        dash=(
            "[[ a | curl ]]",
            "[[ a ]] || curl x",
            "((curl x))",
        ),
        given="1\n",
        variables=(("Y", ""),),
    ),
    "comments and escapes before a line end": Kind(
        (
            "true # \\\ncurl x",
            "true #'\ncurl x",
            'true #"\ncurl x #"',
            "true #`\ncurl x",
            "true # <<E\ncurl x",
            "true #$(\ncurl x",
            "echo a#'\n'; curl x",
            "echo a\\\n#b; curl x",
            "echo $(true # )\ncurl x)",
            "echo `true # x\ncurl x`",
            'echo "#"; curl x',
            "echo '#'; curl x",
            "echo \\#; curl x",
            "echo ''#; curl x",
            "echo ${#}; curl x",
            "echo $#; curl x",
        ),
    ),
    "here-documents with odd ends": Kind(
        (
            "cat <<E\n\\\nE\ncurl x",
            "cat <<E\na\\\nE\nE\ncurl x",
            "cat <<E''F\nEF\ncurl x",
            "cat <<\\E\nE\ncurl x",
            "cat <<'a b'\na b\ncurl x",
            'cat <<""\n\ncurl x',
            "cat <<''\n\ncurl x",
            "cat <<-E\n\t\tE\ncurl x",
            "cat <<-E\n E\n\tE\ncurl x",
            "cat <<E;curl x\nE",
            "cat <<E|cat;curl x\nE",
            "cat <<E&&curl x\nE",
            "(cat <<E\nE\n); curl x",
            "{ cat <<E\nE\n}; curl x",
        ),
        bash=(
            "cat <<EF\nE\\\nF\ncurl x",
            "cat <<EF\nE\\\nF\ncurl x\nEF",
        ),
    ),
    "make options in one word": Kind(
        (
            "make -s 'CC=echo kurl x|tr k c|sh #' a.o",
            "make SHELL=./evil a.o",
            "make '.SHELLFLAGS=-c curl' a.o",
            "make a.o 'CC:=echo kurl x|tr k c|sh #'",
            "make a.o 'CC::=echo kurl x|tr k c|sh #'",
            "make a.o 'CC?=echo kurl x|tr k c|sh #'",
            "make a.o 'CC+=echo kurl x|tr k c|sh #'",
            "make -s -- 'CC=echo kurl x|tr k c|sh #' a.o",
        ),
        before="printf 'y:;@true\n' > f2; mkdir d2; printf 'y:;@true\n' > d2/Makefile",
    ),
    "npm settings": Kind(
        ("npm run x --script-shell ./evil",),
        before=(
            'mkdir d2; echo \'{"name":"d2","scripts":{"x":"curl x"}}\' > d2/package.json; '
            'echo \'{"scripts":{"x":"true","t":"node -v"}}\' > package.json; '
            "echo \"require('child_process').spawnSync('curl')\" > evil.cjs;"
            "echo \"import {spawnSync} from 'child_process'; spawnSync('curl')\" > evil.mjs"
        ),
        seconds=20.0,
    ),
    "python modules that run their input": Kind(
        (
            "python3 -m runpy code",
            "python3 -m cProfile -m code",
            "python3 -m trace -t --module code",
            "python3 -m pdb -c c /dev/stdin",
            "python3 -m asyncio",
            "python3 -mcode",
            "python3 -m code",
            "python3 -i",
            "python3 -im this",
            "python3 -X dev",
            "python3 -X utf8 -",
            "python3 -Bs",
            "python3 -P",
        ),
        given="import os\nos.system('curl x')\n",
    ),
    "programs that are taken to be harmless": Kind(
        (
            "printf '!curl x\\nq\\n' | ed",
            "ls | sh",
            "yes curl | head -1 | sh",
            "head -1 f | sh",
            "cat f | sh",
            "tac f | sh",
            "sort f | sh",
            "uniq f | sh",
            "cut -c1- f | sh",
            "paste f | sh",
            "grep curl f | sh",
            "tr a a < f | sh",
            "dd if=f | sh",
            "sh < f",
            "sh 0< f",
            "sh <&0 < f",
        ),
    ),
    "variables with options of programs": Kind(
        (
            "LESSOPEN='|curl %s' less f",
            "EXINIT='!curl x' ex -s f",
            "PERL5DB='BEGIN { system q(curl x) }' perl -d x.pl",
            "GIT_EXTERNAL_DIFF='curl x' git diff HEAD~1",
            "GIT_EDITOR='curl x' git commit --allow-empty",
            "EDITOR='curl x' git commit --allow-empty",
            "VISUAL='curl x' git commit --allow-empty",
            "GIT_SEQUENCE_EDITOR='curl x' git rebase -i HEAD~1",
            "GIT_PAGER='curl x' git -p log",
            "PAGER='curl x' git -p log",
            "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.q GIT_CONFIG_VALUE_0='!curl x' git q",
            "GIT_CONFIG_PARAMETERS=\"'alias.q=!curl x'\" git q",
            "GIT_CONFIG_GLOBAL=q git status",
            "GIT_SSH='./curl' git ls-remote ssh://h/x",
        ),
        before=REPOSITORY
        + (
            "; echo \"require('child_process').spawnSync('curl')\" > evil.cjs; cp curl bin/curl2; "
            "echo 'int main(){}' > a.c; echo 'system(\"curl x\");1' > evil.pm; touch x.pl; "
            "printf '[core]\nfsmonitor = curl x\n' > q; printf 'BEGIN{system(\"curl\")}' > f2; "
            "cp bin/curl bin/git-curl; echo '[core]\nfsmonitor=curl x' > .gitconfig; mkdir -p z/git; "
            "cp .gitconfig z/git/config"
        ),
        terminal=True,
    ),
    "loop variables": Kind(
        (
            "for X in 'curl x'; do eval $X; done",
            "set -a; for CC in curl; do make a.o; done",
            "for CC in curl; do make CC=$CC a.o; done",
        ),
        before=(
            "printf '#!/bin/dash\necho curl >> /run/log\n/usr/bin/curl x\n' > bin/ls; chmod +x bin/ls; "
            "echo bin > w; cp bin/ls bin/x; mkdir -p z"
        ),
    ),
    "double brackets, which dash lacks": Kind(
        dash=(
            "[[ a || rm -rf ]]",
            "[[ a ||\ncurl ]]",
        ),
    ),
    "python modules that run a file": Kind(
        (
            "cat c | python3 -m cProfile /dev/stdin",
            "cat c | python3 -m profile /dev/stdin",
            "cat c | python3 -m trace -t /dev/stdin",
            "cat c | python3 -m trace --count /dev/stdin",
            "cat c | python3 -mcProfile /dev/stdin",
            "cat c | python3 -m cProfile -s time /dev/stdin",
            "cat c | python3 -m cProfile /proc/self/fd/0",
            "python3 -m cProfile /dev/fd/3 3< c",
            "cat c | python3 -m cProfile /dev/fd/0",
            "cat c | (cd /dev; python3 -m profile stdin)",
            "tr k c < k | python3 -m cProfile /dev/stdin",
            "cat c | python3 -B -m cProfile /dev/stdin",
            "python3 -m cProfile /dev/stdin < c",
        ),
        before="printf 'import os\nos.system(\"curl x\")\n' > c; printf 'import os\nos.system(\"kurl x\")\n' > k",
    ),
    "names between signs": Kind(
        (
            "make 'CC=curl;' a.o",
            "make 'CC=curl&' a.o",
            "make 'CC=<f curl' a.o",
            "make 'CC=1>o curl' a.o",
            "make 'CC=a=1 curl' a.o",
            "make 'CC=curl<f' a.o",
            "make 'CC=curl>o' a.o",
            "make 'CC=:|curl' a.o",
            "make 'CC=true;curl' a.o",
            "make 'CC=true&&curl' a.o",
            "make 'CC=false||curl' a.o",
            "make 'CC=2>&1 curl' a.o",
            "make 'CC=@curl' a.o",
            "make 'CC=-curl' a.o",
            "make 'CC=+curl' a.o",
            "make 'CC=@-curl' a.o",
        ),
    ),
    "git commands that run others": Kind(
        (
            "git bisect start HEAD HEAD~1; git bisect run curl",
            "git rebase -x curl HEAD~1",
            "git rebase --exec curl HEAD~1",
            "git grep -Ocurl more",
            "git grep --open-files=curl more",
            "git difftool -yx curl HEAD~1",
            "git push --dry-run",
            "git fetch --upload-pack curl .",
            "git fetch --upload-p=curl .",
            "git ls-remote --exec=curl .",
            "git clone -u curl . q",
            "git archive --remote=. --exec=curl HEAD",
            "git send-pack --receive-pack=curl . HEAD",
            "git fetch-pack --exec=curl .",
            "git -c difftool.q.cmd=curl difftool -y -t q HEAD~1",
            "git remote add o .; git remote set-url --push o .; git push o",
        ),
        before=REPOSITORY,
    ),
    "a here-document that ends within a substitution": Kind(
        (),
        bash=(
            "echo $(cat <<'E'\nfoo\nE) ; curl x\nE\n)",
            "echo $(cat <<'E'\nfoo\nE ) ; curl x\nE\n)",
            'echo "$(cat <<\'E\'\nE) "; curl x\nE\n)"',
            "echo <(cat <<'E'\nfoo\nE) ; curl x\nE\n)",
            "x=$(cat <<E | cat\nE) ; curl x\nE\n)",
        ),
    ),
    "a variable before a redirection": Kind(
        ("ls {a[`curl x`]}>f",),
        bash=(
            "ls {a['$(curl x)']}>&2",
            "ls {a['$(curl x)']}<&0",
            "ls {a['$(curl x)']}<<<x",
            "ls {a['$(curl x)']}<<E\nE",
            "[ x ] {a['$(curl x)']}<&0",
            "ls {a['$(curl x)']}\\\n>f",
        ),
    ),
    "patterns in tests that dash does not know": Kind(
        (),
        dash=(
            "[[ a || bin/cur? x ]]",
            "[[ a || ./bin/c*l x ]]",
            "[[ ! a || ! bin/c*l ]]",
            "[[ a || bin/cu* x && ls ]]",
        ),
    ),
    "variables that programs find in their environment": Kind(
        (
            "command export CC=curl; make",
            "command export a=curl; make CC=$a",
            "export CC; CC=$(echo curl); make",
            "export CC; a=cu; CC=${a}rl; make",
            "echo curl > q; export CC; read CC < q; make",
            "export CC; for CC in $(echo curl); do make; done",
            "cd bin; export CC; for CC in $PWD/c*; do make -C ..; done",
            "x='bin/c*'; make CC=$x",
        ),
        bash=(
            "builtin export CC=curl; make",
            "time export CC=curl; make",
            "export CC; CC=cu; CC+=rl; make",
            "export CC; read CC <<<curl; make",
        ),
        seconds=20.0,
    ),
    "directories whose names are commands": Kind(
        ("mkdir -p 'a --eval=all:;curl all'; cd 'a --eval=all:;curl all' && make $PWD",),
        bash=("mkdir 'x;curl y'; cd 'x;curl y' && make -C .. CC=~+",),
        seconds=20.0,
    ),
    "files whose names are options": Kind(
        (
            "touch -- '--eval=$(shell curl y)'; make *",
            "mkdir d; cd d; touch -- -wrapper curl z.c; gcc *",
            "mkdir d; cd d; touch -- -wrapper curl z.c; cc *",
        ),
        seconds=20.0,
    ),
    "an editor of texts within another program": Kind(
        (
            "make CC='sed -n -e s/a/c_rl/ -e y/_/u/ -e e q;:'",
            "CC='sed -n -e s/a/c_rl/ -e y/_/u/ -e e q;:' make -e",
            "git grep -nO'sed -n -e s/a/c_rl/ -e y/_/u/ -e e' a -- q",
            "env -- - sed -n -e s,a,bin/c_rl, -e y/_/u/ -e e q",
            "cc -wrapper sed,-n,-e,s/a/c_rl/,-e,y/_/u/,-e,e,--,q a.c",
        ),
        before="echo a > q; echo 'int main(){}' > a.c; " + REPOSITORY + "; git add q",
        terminal=True,
        seconds=20.0,
    ),
    "data as a module": Kind(
        (
            "NODE_OPTIONS='--import=data:text/javascript,import(`child_process`).then(c=>c.exec(`curl`))' node x.js",
            "node --test --import 'DATA:text/javascript,import(`child_process`).then(c=>c.spawnSync(`curl`))' t.js",
            "node --test '--import= data:text/javascript,import(`child_process`).then(c=>c.spawnSync(`curl`))' t.js",
        ),
        before="touch x.js t.js",
        seconds=30.0,
    ),
    "another program by its path": Kind(
        (
            "ln -s /usr/bin/env find; ./find curl x",
            "ln -s /usr/bin/env cd2; mv cd2 popd; ./popd curl y z",
            "ln -s /usr/bin/env timeout; ./timeout curl x",
        ),
    ),
    "input under another name": Kind(
        (
            "ln -s /dev/stdin s; echo 'BEGIN{system(\"curl y\")}' | awk -f s",
            "ln -s /dev/stdin s; echo 'all:;curl y' | make -f s",
            "ln -s /dev/fd s; echo 'all:;curl y' | make -f s/0",
            "ln -s /dev/stdin GNUmakefile; make <<E\nall:;curl y\nE",
        ),
        seconds=20.0,
    ),
    "a program under another name": Kind(
        (
            "ln -s /usr/bin/curl q; ./q x",
            "cp /usr/bin/curl q; ./q x",
            "mv /usr/bin/curl q; ./q x",
            "cp /usr/bin/curl ls2; PATH=.:$PATH; ls2 x",
            "install /usr/bin/curl q; ./q x",
        ),
    ),
    "files with settings": Kind(
        (
            "NODE_OPTIONS='--require ./evil.cjs' node wrap.js",
            "NODE_OPTIONS=--require=./evil.cjs npm -v",
            "XDG_CONFIG_HOME=z git status",
        ),
        before=REPOSITORY
        + (
            "; echo \"require('child_process').spawnSync('curl')\" > evil.cjs; cp curl bin/curl2; "
            "echo 'int main(){}' > a.c; echo 'system(\"curl x\");1' > evil.pm; touch x.pl; "
            "printf '[core]\nfsmonitor = curl x\n' > q; printf 'BEGIN{system(\"curl\")}' > f2; "
            "cp bin/curl bin/git-curl; echo '[core]\nfsmonitor=curl x' > .gitconfig; mkdir -p z/git; "
            "cp .gitconfig z/git/config"
        ),
        terminal=True,
    ),
}
"""Each runs ``curl``, ``rm -rf`` or ``git push``, and the reader denies it or asks."""

UNSEEN: Mapping[str, Kind] = {
    "awk's words apart from their brackets": Kind(
        (
            "awk 'BEGIN { system\\\n(\"curl x\") }'",
            "mawk 'BEGIN { system\\\n(\"curl\") }'",
            "awk 'BEGIN { system \\\n (\"curl x\") }'",
            "awk 'BEGIN { c = \"curl x\"; system\\\n\\\n(c) }'",
            "awk -v 'c=curl x' 'BEGIN { system\\\n(c) }'",
            "echo a | awk '{ system\\\n(\"rm -rf x\") }'",
            "ls | awk '{ system\\\n(\"git push\") }'",
            "find . -exec awk 'BEGIN { system\\\n(\"curl\") }' ';'",
        ),
        variables=(("X", "curl x"),),
    ),
    "words that bash or dash alone reads as commands": Kind(
        dash=(
            "[[ a || curl ]]",
            "[[ a || curl x ]]",
            "[[ a == b || curl ]]",
            "[[ -n '' || curl ]]",
        ),
        given="1\n",
        variables=(("Y", ""),),
    ),
    "npm settings": Kind(
        ("npm --prefix d2 run x",),
        before=(
            'mkdir d2; echo \'{"name":"d2","scripts":{"x":"curl x"}}\' > d2/package.json; '
            'echo \'{"scripts":{"x":"true","t":"node -v"}}\' > package.json; '
            "echo \"require('child_process').spawnSync('curl')\" > evil.cjs;"
            "echo \"import {spawnSync} from 'child_process'; spawnSync('curl')\" > evil.mjs"
        ),
        seconds=20.0,
    ),
    "python modules that run their input": Kind(
        (
            "python3 -m cProfile /dev/stdin",
            "python3 -m profile /dev/stdin",
            "python3 -m trace -t /dev/stdin",
        ),
        given="import os\nos.system('curl x')\n",
    ),
    "optional values of options": Kind(
        ("find . | xargs --max-lines ./evil ls",),
    ),
    "loop variables": Kind(
        (
            "for PATH in bin; do ls; done",
            "for PATH in bin; do ls; done; ls",
            "for PATH in bin; do x; done",
            "for PATH in bin; do (ls); done",
            "for PATH in bin; do echo $(ls); done",
            "for PATH in bin; do :; done; ls",
            "while read PATH; do ls; done < w",
        ),
        before=(
            "printf '#!/bin/dash\necho curl >> /run/log\n/usr/bin/curl x\n' > bin/ls; chmod +x bin/ls; "
            "echo bin > w; cp bin/ls bin/x; mkdir -p z"
        ),
    ),
    "double brackets, which dash lacks": Kind(
        dash=(
            "[[ a || git push ]]",
            "[[ a || wget ]]",
            "[[ a == b || -n c || curl ]]",
            "[[ a || ! curl ]]",
            "[[ ! a || curl ]]",
            '[[ a || "curl" ]]',
            "[[ a || curl == b ]]",
            "[[ a || /usr/bin/curl ]]",
            "[[ a == 1 || curl =~ x ]]",
            "[[ a && b || curl ]]",
            "while [[ a || curl ]]; do break; done",
        ),
    ),
    "indices of variables in words that the shell expands": Kind(
        bash=(
            "b=$(echo 'a[$(kurl x)]' | tr k c); test -v \"$b\"",
            '[ -v "$(tr k c < k)" ]',
            '[ ! -v "$(cat i)" ]',
            'read b < i; test -v "$b"',
            'read "$(cat i)" <<< 1',
            'while read b; do read "$b"; done < i',
            'sleep 0 & wait -n -p "$(cat i)"',
            'x=-v; printf $x "$(cat i)" y',
            'printf $(echo -v) "$(cat i)" x',
            'x=-v; test $x "$(cat i)"',
            'x=-v; b=$(cat i); test "$x" "$b"',
            'b=$(cat i); test a = b -o -v "$b"',
            'cat i | while read b; do [ -v "$b" ]; done',
            'cat i | (read b; test -v "$b")',
            "[ -v z* ]",
            "test -v z*",
        ),
        before="printf 'a[$(curl x)]\n' > i; printf 'a[$(kurl x)]\n' > k; touch 'z[$(curl x)]'",
        given="1\n",
    ),
    "programs with the name of one of the system": Kind(
        (
            "make CC=$(./nproc) a.o",
            "make CC=$(./whoami) a.o",
            "PATH=sub:$PATH; make CC=$(nproc) a.o",
        ),
        before=(
            "mkdir -p sub; printf '#!/bin/dash\necho curl\n' > nproc; chmod +x nproc; cp nproc whoami; cp nproc sub"
        ),
    ),
}
"""Each runs one of them too; an earlier reader did not see it."""

UNCOVERED: Mapping[str, Kind] = {
    "optional values of options": Kind(
        (
            "echo x | xargs --max-lines curl",
            "echo x | xargs --max-lines curl ls",
            "echo x | xargs --max-lines ./curl echo",
            "ls | xargs --max-lines wget grep",
            "ls | xargs -0 --max-lines curl true",
            "ls | env xargs --max-lines curl ls",
        ),
    ),
    "npm settings": Kind(
        (
            "npm run x --prefix=d2",
            "npm run x --prefix d2",
            "npm run x -C d2",
        ),
        before=(
            'mkdir d2; echo \'{"name":"d2","scripts":{"x":"curl x"}}\' > d2/package.json; '
            'echo \'{"scripts":{"x":"true","t":"node -v"}}\' > package.json; '
            "echo \"require('child_process').spawnSync('curl')\" > evil.cjs;"
            "echo \"import {spawnSync} from 'child_process'; spawnSync('curl')\" > evil.mjs"
        ),
        seconds=20.0,
    ),
    "double brackets, which dash lacks": Kind(
        dash=(
            "if [[ a || curl ]]; then ls; fi",
            "ls && [[ a || curl ]]",
        ),
    ),
    "npm settings in a short form": Kind(
        (
            "npm run x --script-sh ./evil",
            "npm run x --scrip=./evil",
            "npm run x --script=./evil",
            "npm run x --script-shel=./evil",
            "npm run x -script-s=./evil",
        ),
        before=(
            "echo script-shell=./evil > rc; mkdir d2; "
            'echo \'{"name":"d2","scripts":{"x":"curl x"}}\' > d2/package.json; '
            'echo \'{"scripts":{"x":"true","t":"node -v"}}\' > package.json; '
            "echo \"require('child_process').spawnSync('curl')\" > evil.cjs"
        ),
        seconds=20.0,
    ),
}
"""Each runs one of them; an earlier reader took it to be covered by an allowance that was meant for less."""

BEYOND: Mapping[str, Kind] = {
    "a file of the line itself": Kind(
        (
            "cat <<E > q; sh q\ncurl x\nE",
            "tee q < /usr/bin/curl > o; sh q x",
            "cat /usr/bin/curl > q; sh q x",
            "dd if=/usr/bin/curl of=q; sh q x",
        ),
    ),
}
"""Each runs ``curl``, and the line doesn't show it: a file contains the code, or the line renames the program.
docs/guides/policy.md names these limits.
"""

EVADING = lines_of(OWN_WAYS) + lines_of(TRICKS)
