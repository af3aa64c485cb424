"""A host's process that says whatever it is told to, at the moment it is told. It knows nothing of cogstep.

Its argument is JSON: ``at`` names the message at which it stops being honest, ``say`` what it says then (``ID`` stands
for the id of that message, ``COUNT`` for how often it has said so), ``times`` how often (0: without end), ``then`` what
it does afterwards.
"""

import itertools
import json
import os
import sys
import time

END = {
    "type": "turn_ended",
    "outcome": {"type": "completed", "text": "honest"},
    "usage": {},
    "messages": [],
    "number": 1,
}


def write(text: str) -> None:
    data = text.encode("latin-1")
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    orders = json.loads(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == orders.get("at"):
            said = orders.get("say", "").replace("ID", message.get("id", ""))
            for number in range(orders.get("times", 1)) if orders.get("times", 1) else itertools.count():
                write(said.replace("COUNT", str(number)))
            match orders.get("then", ""):
                case "mute":
                    time.sleep(600)
                case "exit":
                    os._exit(0)
                case "close":
                    os.close(1)
                    time.sleep(600)
            continue
        match message["type"]:
            case "start":
                told = {"type": "started", "model": "m", "backend": "b", "context_tokens": 4096}
            case "init":
                told = {"type": "ready", "session": message["session"]}
            case "run_turn":
                told = {**END, "session": message["session"], "turn": message["turn"]}
            case "shutdown":
                return
            case _:
                told = {"type": "done"}
        write(json.dumps({**told, **({"id": message["id"]} if "id" in message else {})}) + "\n")


main()
