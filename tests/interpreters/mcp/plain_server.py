"""A server of tools on stdin and stdout, written without the SDK, so that it starts fast and can behave badly.

Run as a program with the names of what it does otherwise than a good one, such as ``dies`` or ``garbage``. Its tools::

    echo(text)        gives the text again          env(name)    gives a variable of its own
    count()           calls so far, of all lives    meta()       gives what ``_meta`` holds
    die()             ends without an answer        silent()     never answers, and writes down when it is cancelled
    picture()         an image                      progress()   tells how far it is
    moody(text, mood) writes a text down, or not, and ends as it likes
    change()          lists another tool from now on, and says so
    flood()           says so two hundred times
    worsen()          says from now on that count() destroys something
"""

import json
import os
import sys
import threading

FAULTS = set(sys.argv[2:])
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
WRITING = threading.Lock()
EXTRA = []

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NONE = {"type": "object", "properties": {}}


def main():
    say_first()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            heard(message)
        elif "garbage" in FAULTS:
            print("Listening...\n{not json\n[1, 2]\n\xff\xfe", flush=True)
            answer(message)
        else:
            answer(message)


def say_first():
    if "no start" in FAULTS:
        print(f"cannot open the database with the password {os.environ.get('DB_PASSWORD')}", file=sys.stderr)
        sys.exit(3)
    if "waits for a file" in FAULTS and not os.path.exists(os.path.join(FOLDER, "there")):
        sys.exit(4)
    if "chatty" in FAULTS:
        print("x" * 200_000, file=sys.stderr, flush=True)


def heard(message):
    if message["method"] == "notifications/cancelled":
        note("cancelled")


def note(what, name="notes.txt"):
    with open(os.path.join(FOLDER, name), "a") as file:
        file.write(f"{what}\n")


def send(message):
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(message):
    number, method, params = message["id"], message["method"], message.get("params", {})
    if method == "initialize" and "no licence" in FAULTS:
        send({"id": number, "error": {"code": -32000, "message": "the licence has ended"}})
    elif method == "initialize" and "mute" not in FAULTS:
        given = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "plain", "version": "1"}}
        send({"id": number, "result": {**given, "capabilities": {"tools": {"listChanged": True}}}})
    elif method == "tools/list":
        listed(number, params)
    elif method == "tools/call":
        call(number, params)
    elif method == "server/discover" or "mute" not in FAULTS:
        send({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def listed(number, params):
    note("listed", "lists.txt")
    tools = [
        {"name": "echo", "description": "Say it again.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
        {"name": "env", "inputSchema": NAME},
        *({"name": name, "inputSchema": NONE} for name in ("count", "die", "silent", "picture", "progress", "meta")),
        {"name": "moody", "inputSchema": {"type": "object"}},
        {"name": "flood", "inputSchema": NONE},
        {"name": "worsen", "inputSchema": NONE},
        {"name": "change", "inputSchema": NONE, "annotations": {"destructiveHint": True}},
        *EXTRA,
    ]
    if "worse" in FAULTS:
        tools[2] |= {"annotations": {"destructiveHint": True}}
    if "same cursor" in FAULTS:
        send({"id": number, "result": {"tools": tools, "nextCursor": "on"}})
        return
    if "no list" in FAULTS:
        send({"id": number, "result": {"tools": "none"}})
        return
    if "odd tools" in FAULTS:
        tools += odd_tools()
    if "deep" in FAULTS:
        deep = '{"type":"object","properties":{"a":' * 5_000 + "{}" + "}}" * 5_000
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": [*tools, "DEEP"]}})
        named = '{"name": "deep", "description": "Deep.", "inputSchema": ' + deep + "}"
        print(text.replace('"DEEP"', named), flush=True)
        return
    if "endless list" in FAULTS:
        send({"id": number, "result": {"tools": [], "nextCursor": str(int(params.get("cursor", "0")) + 1)}})
        return
    send({"id": number, "result": {"tools": tools}})


def odd_tools():
    pattern = {"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}
    elsewhere = {
        "type": "object",
        "properties": {"x": {"$ref": "https://elsewhere.example/x.json"}, "y": {"type": "integer"}},
    }
    strange = {"type": "object", "properties": {"x": {"type": "strng", "minLength": -1}}}
    return [
        {"name": "read file", "inputSchema": NONE},
        {"name": "read/file", "inputSchema": NONE},
        {"name": "echo", "description": "Another one.", "inputSchema": NONE},
        {"name": "", "inputSchema": NONE},
        {"name": 5, "inputSchema": NONE},
        "no tool at all",
        {"name": "no_schema"},
        {"name": "bad_schema", "inputSchema": "yes", "annotations": "none", "title": ["x"], "description": 7},
        {"name": "long_" * 40, "inputSchema": NONE},
        {"name": "pattern", "inputSchema": pattern},
        {"name": "elsewhere", "inputSchema": elsewhere},
        {"name": "strange", "inputSchema": strange},
        {"name": "list", "inputSchema": {"type": "array"}},
        {"name": "no_properties", "inputSchema": {"type": "object", "properties": 7, "required": "x"}},
        {"name": "circle", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}}},
        {"name": "wordy", "description": "w" * 20_000, "inputSchema": NONE},
    ]


def call(number, params):
    name, given = params["name"], params.get("arguments") or {}
    if "dies" in FAULTS and name == "echo":
        note("called")
        os._exit(7)
    if name == "moody":
        moody(number, given["text"], given["mood"])
    elif name == "echo" or name == "read file":
        text(number, "z" * 20_000_000 if "huge" in FAULTS else given.get("text", "no text"))
    elif name == "env":
        text(number, os.environ.get(given["name"], "there is no such variable"))
    elif name == "count":
        note("counted")
        with open(os.path.join(FOLDER, "notes.txt")) as file:
            text(number, str(file.read().count("counted")))
    elif name == "die":
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(9)
    elif name == "silent":
        note("asked")
    elif name == "picture":
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        send({"id": number, "result": {"content": [{"type": "text", "text": "Here:"}, image, {"type": "hologram"}]}})
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for done in (1, 2):
            told = {"progressToken": token, "progress": done, "total": 2, "message": "counting"}
            send({"method": "notifications/progress", "params": told})
        text(number, "done")
    elif name == "meta":
        text(number, json.dumps(params.get("_meta")))
    elif name == "flood":
        for _ in range(200):
            send({"method": "notifications/tools/list_changed"})
        text(number, "flooded")
    elif name == "worsen":
        FAULTS.add("worse")
        send({"method": "notifications/tools/list_changed"})
        text(number, "worse")
    elif name == "change":
        EXTRA.append({"name": "new", "inputSchema": NONE})
        send({"method": "notifications/tools/list_changed"})
        text(number, "changed")
    else:
        failed = {"content": [{"type": "text", "text": f"{name} has failed"}], "isError": True}
        send({"id": number, "result": failed})


def moody(number, said, mood):
    """Write a text down, unless the mood is to do so too late."""
    if mood == "dies before":
        os._exit(1)
    if mood.startswith("refuses"):
        code = -32000 if mood == "refuses with the code of a closed connection" else -32603
        send({"id": number, "error": {"code": code, "message": "not today"}})
        return
    note(said)
    if mood == "dies after":
        os._exit(1)
    if mood == "closes its output":
        os.close(1)
        return
    if mood == "is cut off":
        sys.stdout.write('{"jsonrpc": "2.0", "id": ')
        sys.stdout.flush()
        os._exit(1)
    if mood == "babbles":
        print("{}\n[]\nnull\n" + '{"jsonrpc": "2.0", "id": 999999, "result": {}}', flush=True)
    if mood == "answers nonsense":
        send({"id": number, "result": {"content": "none", "isError": "perhaps", "structuredContent": [1]}})
    elif mood != "is silent":
        text(number, said)


def text(number, said):
    send({"id": number, "result": {"content": [{"type": "text", "text": said}]}})


if __name__ == "__main__":
    main()
