"""Stand-ins for ``claude`` and ``codex``, for tests, with their documented arguments and events.

A copy of this file named ``claude`` or ``codex`` is the program (``installed``). What it does is a list of steps in the
file that the variable ``FAKE_PLAN`` names, each a list of a word and its parts; without one it says what it was told
last. It refuses options that the real programs don't document, as they would, and leaves what it was called with in the
folder ``FAKE_LOG``, one file for each call.

===================================  ===========================================================================
``["say", text]``                    a whole reply, with the events that the program writes for it
``["turns", text, ...]``             says one of these, by how many replies the conversation has
``["events", event, ...]``           these events
``["raw", text]``                    this text, as it is
``["error", text]``                  this text, to stderr
``["flood", stream, bytes]``         many bytes to 1 or 2, without a line break
``["meet", path]``                   says at a path that it is there, by a file
``["ignore", signal, ...]``          ignores signals
``["leave"]``                        starts a process that holds stdout open and never ends
``["hang"]``, ``["sleep", s]``       waits for ever, or for a while
``["exit", code]``, ``["die", n]``   ends with a code, or by a signal
===================================  ===========================================================================
"""

import json
import os
import signal
import subprocess
import sys
import time

NAME = os.path.basename(sys.argv[0])

OPTIONS = {
    "claude": {
        "-p": 0, "--output-format": 1, "--verbose": 0, "--include-partial-messages": 0, "--permission-mode": 1,
        "--setting-sources": 1, "--strict-mcp-config": 0, "--tools": 1, "--allowedTools": 1, "--mcp-config": 1,
        "--dangerously-skip-permissions": 0, "--system-prompt-file": 1, "--append-system-prompt-file": 1,
        "--system-prompt": 1, "--model": 1, "--max-turns": 1, "--max-budget-usd": 1, "--json-schema": 1,
        "--no-session-persistence": 0, "--resume": 1, "--fork-session": 0,
    },
    "codex": {
        "exec": 0, "--json": 0, "--color": 1, "--skip-git-repo-check": 0, "--sandbox": 1, "--ignore-user-config": 0,
        "--dangerously-bypass-approvals-and-sandbox": 0, "--ignore-rules": 0, "--ephemeral": 0, "--model": 1,
        "--output-schema": 1, "-c": 1, "resume": 1, "-": 0,
    },
}  # fmt: skip
"""The documented ones, and how many values each takes."""

FILES = ("--system-prompt-file", "--append-system-prompt-file", "--mcp-config", "--output-schema")


def write(text):
    data = text.encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(1, data) :]


def tell(*events):
    for event in events:
        write(json.dumps(event) + "\n")


def arguments():
    given, rest = {}, sys.argv[1:]
    known = OPTIONS[NAME]
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in known or (equals and not known[name]):
            os.write(2, f"error: unknown option '{name}'\n".encode())
            sys.exit(1)
        if known[name]:
            given.setdefault(name, []).append(value if equals else rest.pop(0))
        else:
            given[name] = []
    return given


def logged(given, told):
    folder = os.environ.get("FAKE_LOG")
    if folder:
        files = {}
        for name in FILES:
            for path in given.get(name, []):
                with open(path, encoding="utf-8") as file:
                    files[name] = [oct(os.stat(path).st_mode & 0o777), file.read()]
        call = {
            "pid": os.getpid(), "arguments": sys.argv[1:], "options": given, "environ": dict(os.environ),
            "folder": os.getcwd(), "stdin": told, "files": files,
        }  # fmt: skip
        with open(os.path.join(folder, f"{time.monotonic_ns():020d}.json"), "w", encoding="utf-8") as file:
            json.dump(call, file)


def session(given):
    """The session of this call; those that were kept are files."""
    old = (given.get("--resume") or given.get("resume") or [""])[0]
    folder = os.environ.get("FAKE_SESSIONS", "")
    if old and not os.path.exists(os.path.join(folder, old)):
        if NAME == "claude":
            claude_fails(f"No conversation found with session ID: {old}")
        else:
            os.write(2, f"Error: no rollout found for id {old}".encode())
        sys.exit(1)
    new = old if old and NAME == "codex" else f"session-{os.getpid()}"
    if folder and not {"--no-session-persistence", "--ephemeral"} & given.keys():
        with open(os.path.join(folder, new), "a", encoding="utf-8") as file:
            file.write("a turn\n")
    return new


def claude_fails(*errors):
    """How it ends a turn that can't begin, and one that is interrupted."""
    tell({"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": errors})


def interrupted(_number, _frame):
    claude_fails("[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null")
    os._exit(1)


def claude_begins(name, **more):
    begun = {"type": "system", "subtype": "init", "session_id": name, "tools": [], "mcp_servers": []}
    tell({**begun, "permissionMode": "default", **more})


def claude_says(name, text, given):
    def stream(**event):
        tell({"type": "stream_event", "session_id": name, "parent_tool_use_id": None, "event": event})

    usage = {"input_tokens": 12, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 1}
    structured = "--json-schema" in given
    claude_begins(name, tools=["StructuredOutput"] if structured else [])
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": []}
    stream(type="message_start", message={**message, "usage": usage})
    stream(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
    half = len(text) // 2
    for piece in (text[:half], text[half:]):
        if piece:
            stream(type="content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    content = [{"type": "text", "text": text}]
    tell({"type": "assistant", "session_id": name, "message": {**message, "content": content, "usage": usage}})
    stream(type="content_block_stop", index=0)
    stream(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7})
    stream(type="message_stop")
    result = {
        "type": "result", "subtype": "success", "is_error": False, "session_id": name, "num_turns": 1,
        "result": text, "stop_reason": "end_turn", "total_cost_usd": 0.25, "usage": {**usage, "output_tokens": 7},
    }  # fmt: skip
    tell({**result, "structured_output": json.loads(text)} if structured else result)


def codex_says(name, text, _given):
    kept = os.path.join(os.environ.get("FAKE_SESSIONS", ""), name)
    turns = 1
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            turns = len(file.readlines())
    usage = {"input_tokens": 20, "cached_input_tokens": 5, "output_tokens": 7}
    tell(
        {"type": "thread.started", "thread_id": name},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "**Thinking**"}},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": {key: turns * tokens for key, tokens in usage.items()}},  # of the session
    )


def says(name, text, given):
    (claude_says if NAME == "claude" else codex_says)(name, text, given)


def step(name, told, given, word, *parts):
    if word == "say":
        says(name, parts[0], given)
    elif word == "turns":
        said = [line for line in told.splitlines() if line.startswith('{"role": "assistant"')]
        says(name, parts[len(said)], given)
    elif word == "events":
        tell(*parts)
    elif word == "raw":
        write(parts[0])
    elif word == "error":
        os.write(2, parts[0].encode())
    elif word == "flood":
        for _ in range(parts[1] // 1000):
            data = b"x" * 1000
            while data:
                data = data[os.write(parts[0], data) :]
    elif word == "meet":
        with open(parts[0], "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    elif word == "ignore":
        for number in parts:
            signal.signal(getattr(signal, number), signal.SIG_IGN)
    elif word == "leave":
        subprocess.Popen(["/bin/sleep", "1000"], stdin=subprocess.DEVNULL)
    elif word == "hang":
        while True:
            signal.pause()
    elif word == "sleep":
        time.sleep(parts[0])
    elif word == "exit":
        os._exit(parts[0])
    elif word == "die":
        os.kill(os.getpid(), parts[0])
    else:
        raise ValueError(word)


def main():
    signal.signal(signal.SIGINT, interrupted if NAME == "claude" else signal.SIG_DFL)
    given = arguments()
    told = sys.stdin.buffer.read().decode()
    logged(given, told)
    name = session(given)
    plan = os.environ.get("FAKE_PLAN")
    if plan:
        with open(plan, encoding="utf-8") as file:
            for one in json.load(file):
                step(name, told, given, *one)
    else:
        last = json.loads([line for line in told.splitlines() if line.startswith("{")][-1])
        says(name, f"You said: {last['content']}", given)


if __name__ == "__main__":
    main()
