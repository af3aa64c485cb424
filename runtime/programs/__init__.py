"""Other agents' command lines as models: Claude Code's ``claude`` and OpenAI's ``codex``, one process for each reply.

=============================  ====================================================================
``options``                    what a program may do, and how patient we are with it
``prompt``                     a request as the text that a program reads
``claude``, ``codex``          one program each: how it is called, and how its events are read
``events``                     what the two readers share: lines, texts, and what has been heard
``failures``                   what a program says as a failure of a known kind
``running``, ``child``         one process: started, fed, read, interrupted, killed
``sessions``                   which of a program's sessions a conversation goes on in
``handles``, ``loading``       the runtime, and how ``load_model`` makes one
=============================  ====================================================================

``prompt``, ``claude``, ``codex``, ``events`` and ``failures`` are pure.
"""
