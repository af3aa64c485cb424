"""A model in a child process: a native crash ends that process, not the program.

    caller ── letter ──▶ Supervisor (a thread) ── lines over a socket pair ──▶ child: reader ── job ──▶ owner thread
                              │    ▲                                                                          │
    caller ◀── outputs ───────┘    └────────────── lines: outputs, counts, pulses ◀───────────────────────────┘

- ``settings``: timeouts and the number of restarts
- ``wire``: the messages between the two: plain values, one line of JSON each
- ``child``: the program of the child
- ``process``: one child, seen from the parent: start, listen, end
- ``supervisor``: the thread that keeps a child running and tracks pending requests and time
- ``handles``: the objects that callers use
"""
