"""A model in a process of its own: what native code does wrong there ends one process, and not the program.

    caller ── letter ──▶ Supervisor (a thread) ── lines over a socket pair ──▶ child: reader ── job ──▶ owner thread
                              │    ▲                                                                          │
    caller ◀── outputs ───────┘    └────────────── lines: outputs, counts, pulses ◀───────────────────────────┘

=================  =====================================================================================
``settings``       how long a silence may be, how often a process is started again
``wire``           what the two say to each other: plain values, one line of JSON each
``child``          the program of the child
``process``        one child from the parent's side: start, listen, end
``letters``        what callers hand to its supervisor
``supervisor``     the thread that keeps a child running and knows what is on its way
``handles``        what callers hold
=================  =====================================================================================
"""
