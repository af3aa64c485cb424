"""The sandbox without policy's reader: everything is allowed to run, and what rules deny fails inside it.

Each attempt is made twice: outside of a sandbox it reaches what it is after, so it is a real one; inside it does not.
"""

from __future__ import annotations

import os
import re
import shutil
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cognition import AccessRules, Policy, Rule, ToolCall
from interpreters import ToolContext, ToolError
from interpreters.toolbox import shell_tools
from interpreters.toolbox.shell.sandbox import Choice
from tests.interpreters.toolbox.shell.sandboxes import needs

WALLS: tuple[Choice, ...] = ("bubblewrap", "landlock")
MILK = "milk-4711"
TOLD = "3f2d-of-sha512"

READING = """
cat secrets/key
cat < secrets/key
cat ./secrets//key
cat secrets/../secrets/key
cat "$PWD/secrets/key"
cat s*/k*
cat secret?/key
cat link/key
cat deep/er/../../secrets/key
cd secrets && cat key
cd deep && cat ../secrets/key
cat /proc/self/cwd/secrets/key
cat /proc/self/root$PWD/secrets/key
cat /proc/$$/cwd/secrets/key
head -n 1 secrets/key
tail -n 1 secrets/key
tac secrets/key
sed -n p secrets/key
awk 1 secrets/key
awk 'BEGIN { while ((getline line < "secrets/key") > 0) print line }'
grep -r milk secrets
grep -rh milk .
cut -c 1- secrets/key
tr x y < secrets/key
dd if=secrets/key status=none
base64 secrets/key | base64 -d
sort secrets/key
uniq secrets/key
paste secrets/key
fold secrets/key
nl secrets/key
rev secrets/key | rev
expand secrets/key
tee < secrets/key
pr -t secrets/key
fmt secrets/key
cp secrets/key c1 && cat c1
cp -r secrets c2 && cat c2/key
install -m 644 secrets/key c3 && cat c3
ln secrets/key h1 && cat h1
ln -s secrets/key l1 && cat l1
ln -s "$PWD/secrets" l2 && cat l2/key
cp -l secrets/key h2 && cat h2
chmod 777 secrets secrets/key; cat secrets/key
echo "$(<secrets/key)"
read -r line < secrets/key; echo "$line"
mapfile -t lines < secrets/key; echo "${lines[0]}"
exec 3< secrets/key; cat <&3
while read -r line; do echo "$line"; done < secrets/key
. secrets/key
sh secrets/key
bash -c 'cat secrets/key'
find . -name key -exec cat {} +
find secrets -type f -print0 | xargs -0 cat
tar c secrets | tar xO
diff /dev/null secrets/key
comm -23 secrets/key /dev/null
join secrets/key secrets/key
gzip -c secrets/key | gzip -dc
split secrets/key part- && cat part-aa
python3 -c 'print(open("secrets/key").read())'
python3 -c 'import os; print(os.read(os.open("secrets/key", os.O_RDONLY), 99))'
python3 -c 'import mmap; f = open("secrets/key"); print(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:])'
python3 -c 'import shutil; print(open(shutil.copy("secrets/key", "c4")).read())'
python3 -c 'import glob; print(open(glob.glob("**/key", recursive=True)[0]).read())'
python3 -c 'import os; d = os.open("secrets", os.O_PATH); print(open(os.open("key", 0, dir_fd=d)).read())'
python3 -c 'import subprocess; print(subprocess.run(["cat", "secrets/key"], capture_output=True).stdout)'
python3 -c 'import os; os.link("secrets/key", "h3"); print(open("h3").read())'
perl -pe '' secrets/key
perl -e 'open F, "secrets/key"; print <F>'
env cat secrets/key
nice cat secrets/key
timeout 5 cat secrets/key
setsid -w cat secrets/key
xargs -a secrets/key echo
cat .env
python3 -c 'print(open(".env").read())'
cat deep/er/x.pem
find . -name '*.pem' -exec cat {} +
cp deep/er/x.pem q.pem; cat q.pem
mv secrets moved && cat moved/key; mv moved secrets
mv secrets/key moved && cat moved; mv moved secrets/key
mv deep deeper && cat deeper/er/x.pem; mv deeper deep
"""
"""Ways to read a denied file: ``secrets/**``, ``.env`` and ``**/*.pem``."""

RUNNING = """
tell
$PWD/tools/tell
t""ell
command tell
exec tell
eval te'll'
x=te; ${x}ll
env tell
nice tell
timeout 5 tell
nohup tell
setsid -w tell
stdbuf -o0 tell
xargs tell < /dev/null
bash -c tell
sh -c tell
sh tools/tell
bash tools/tell
. tools/tell
cat tools/tell | sh
cp tools/tell q1 && ./q1
ln tools/tell q2 && ./q2
ln -s tools/tell q3 && ./q3
cat tools/tell > q4; sh q4
tools/tel?
cd tools && ./tell
find tools -name tell -exec {} \\;
awk 'BEGIN { system("tell") }'
sed -n '1e tell' /etc/passwd
perl -e 'system "tell"'
perl -e 'exec "tell"'
python3 -c 'import os; os.system("tell")'
python3 -c 'import subprocess; print(subprocess.run(["tell"], capture_output=True).stdout)'
python3 -c 'import os; os.execvp("tell", ["tell"])'
printf 'all:\\n\\t@tell\\n' > Makefile; make -s
PATH=$PWD/tools tell
hash -p tools/tell other; other
/proc/self/cwd/tools/tell
trap tell EXIT; true
mv tools tools2 && tools2/tell; mv tools2 tools
"""
"""Ways to run a denied program: ``Bash(tell:*)``, a script in the directory ``tools`` on the path."""

POLICY = Policy(
    tuple(
        Rule("deny", text)
        for text in ("*(secrets/**)", "Read(.env)", "*(**/*.pem)", "Bash(tell:*)", "Write(kept)", "Bash(rm -rf:*)")
    )
)


def attempts(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    made = tmp_path / "desk"
    for folder in ("secrets", "deep/er", "tools"):
        (made / folder).mkdir(parents=True)
    for name in ("secrets/key", ".env", "deep/er/x.pem"):
        (made / name).write_text(f"{MILK}\n")
    (made / "link").symlink_to("secrets")
    (made / "kept").write_text("as it was\n")
    (made / "tools/tell").write_text(f"#!/bin/sh\necho {TOLD}\n")
    (made / "tools/tell").chmod(0o755)
    return made


CALL = ToolCall("1", "Bash", '{"command": "true"}')


def outputs(desk: Path, sandbox: Choice, lines: list[str], *, network: bool = False) -> list[str]:
    """Run the lines in one command, each in a shell of its own, and return what each of them printed."""
    script = desk.parent / "attempts"
    script.mkdir(exist_ok=True)
    body = [f"echo '@@ {n}'\n( {line}\n) 2>&1" for n, line in enumerate(lines)]
    (script / "all.sh").write_text("\n".join(body))
    environ = {"PATH": f"{desk}/tools:/usr/bin:/bin"}
    with shell_tools(desk, sandbox=sandbox, readable=[script], environ=environ, shown=1_000_000) as tools:
        specs = {tool.spec.name: tool.spec for tool in tools}
        arguments = {"command": f"bash {script}/all.sh", **({"network": True} if network else {})}
        call = ToolCall("1", "Bash", arguments)
        access = POLICY.access_rules(call, specs) if sandbox != "off" else AccessRules()
        text = tools[0].call(arguments, ToolContext(None, access=access))
    parts = re.split(r"^@@ \d+\n", text, flags=re.M)
    assert len(parts) == len(lines) + 1, text[-2000:]
    return parts[1:]


@pytest.fixture(params=WALLS)
def wall(request: pytest.FixtureRequest) -> Choice:
    chosen: Choice = request.param
    needs(chosen)
    return chosen


def test_a_hundred_ways_to_what_is_denied_fail_in_every_sandbox(desk: Path, wall: Choice) -> None:
    reading, running = attempts(READING), attempts(RUNNING)
    assert len(reading) + len(running) >= 100

    got = outputs(desk, wall, [*reading, *running])

    reached = [line for line, text in zip(reading, got, strict=False) if MILK in text]
    reached += [line for line, text in zip(running, got[len(reading) :], strict=True) if TOLD in text]
    assert reached == []
    assert (desk / "secrets/key").read_text() == f"{MILK}\n"


def test_the_same_ways_lead_there_without_a_sandbox(desk: Path) -> None:
    """Otherwise the test above shows nothing. Programs that are not installed here are left out."""
    installed = shutil.which("make") is not None
    reading = attempts(READING)
    running = [line for line in attempts(RUNNING) if installed or "make" not in line]

    got = outputs(desk, "off", [*reading, *running])

    missed = [line for line, text in zip(reading, got, strict=False) if MILK not in text]
    missed += [line for line, text in zip(running, got[len(reading) :], strict=True) if TOLD not in text]
    assert missed == []


@pytest.fixture
def port() -> Iterator[int]:
    """A server of this machine that says something to whoever connects."""

    class Streamed(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(f"{MILK}\n".encode())

    class Datagram(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request[1].sendto(MILK.encode(), self.client_address)

    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), Streamed) as server,
        socketserver.UDPServer(server.server_address, Datagram) as other,
    ):
        for one in (server, other):
            threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
        other.shutdown()


FETCHING = """
exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3
python3 -c 'import socket; print(socket.create_connection(("127.0.0.1", {port})).recv(99))'
perl -MIO::Socket::INET -e 'print IO::Socket::INET->new("127.0.0.1:{port}")->getline'
exec 3<>/dev/udp/127.0.0.1/{port}; echo x >&3; timeout 5 head -c 9 <&3
"""


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_if_this_command_may_use_it(desk: Path, wall: Choice, port: int, network: bool) -> None:
    lines = attempts(FETCHING.replace("{port}", str(port)))

    got = outputs(desk, wall, lines, network=network)

    assert [MILK in text for text in got] == [network] * len(lines), got


def test_what_may_only_not_be_written_can_be_read(desk: Path, wall: Choice) -> None:
    lines = [
        *("cat kept", "echo x > kept", "echo x >> kept", "rm -f kept", "mv -f link kept", "sed -i s/as/x/ kept"),
        *(
            "truncate -s 0 kept",
            "cp link/../.env kept",
            'python3 -c \'open("kept", "w")\'',
            "ln -sf x kept",
            "cat kept",
        ),
    ]

    got = outputs(desk, wall, lines)

    assert [text.splitlines()[0] for text in (got[0], got[-1])] == ["as it was"] * 2
    assert (desk / "kept").read_text() == "as it was\n"


def test_a_rule_that_can_not_be_enforced_is_named_and_a_required_sandbox_refuses(desk: Path, wall: Choice) -> None:
    """A program that is others too, as BusyBox is: who hides it, hides them."""
    (desk / "tools/box").write_text("#!/bin/sh\necho ${0##*/}\n")
    (desk / "tools/box").chmod(0o755)
    for name in ("one", "two"):
        (desk / "tools" / name).symlink_to("box")
    policy = Policy((Rule("deny", "Bash(one:*)"), Rule("deny", "Bash(tell:*)")))
    environ = {"PATH": f"{desk}/tools:/usr/bin:/bin"}
    with shell_tools(desk, sandbox=wall, environ=environ) as tools:
        access = policy.access_rules(CALL, {tools[0].spec.name: tools[0].spec})
        context = ToolContext(None, access=access)
        preview = tools[0].preview({"command": "two"}, context)
        with pytest.raises(ToolError, match=r"not run: a sandbox is required.*can't enforce Bash\(one:\*\)"):
            tools[0].call({"command": "two"}, context)

    assert preview is not None
    assert "enforces Bash(tell:*); it can't enforce Bash(one:*)" in preview.note


def test_what_the_sandbox_refuses_is_shown_and_logged(
    desk: Path, wall: Choice, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"PATH": f"{desk}/tools:/usr/bin:/bin"}
    with shell_tools(desk, sandbox=wall, environ=environ) as tools:
        context = ToolContext(None, access=POLICY.access_rules(CALL, {"Bash": tools[0].spec}))
        denied = tools[0].call({"command": "tell"}, context)
        offline = tools[0].call(
            {"command": "python3 -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'"}, context
        )
        clean = tools[0].call({"command": "cat kept"}, context)

    assert "policy denies tell" in denied.splitlines()[-1]
    assert "no network; call again with network=true" in offline.splitlines()[-1]
    assert clean.startswith("as it was\n[exit code 0, ")
    assert ";" not in clean
    assert [record.getMessage().partition(" refused")[0] for record in caplog.records] == [f"the sandbox ({wall})"] * 2


def test_the_network_needs_the_approval_of_the_call(desk: Path, wall: Choice) -> None:
    """Also if the session offers an older ``Bash``, whose calls nobody is asked about for the network."""
    with shell_tools(desk, sandbox=wall) as tools, pytest.raises(ToolError, match="nobody has approved the network"):
        tools[0].call({"command": "true", "network": True}, ToolContext(None))


def test_what_a_command_leaves_running_is_ended(desk: Path, wall: Choice) -> None:
    """Named in its result, without the processes of the sandbox itself."""
    with shell_tools(desk, sandbox=wall) as tools:
        said = tools[0].call({"command": "sleep 1000 & (setsid sleep 1001 &); echo up"}, ToolContext(None))
        with pytest.raises(ToolError, match="it ran longer than"):
            tools[0].call({"command": "sleep 1002", "timeout": 0.2}, ToolContext(None))
        tools[0].call({"command": "sleep 1003", "run_in_background": True}, ToolContext(None))

    assert "what it left running was ended: sleep" in said
    assert "cogstep-sandbox" not in said
    running = [words for words in map(command_line, os.listdir("/proc")) if words[:1] == ["sleep"]]
    assert not [words for words in running if words[1:] in (["1000"], ["1001"], ["1002"], ["1003"])]


def command_line(process: str) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []
