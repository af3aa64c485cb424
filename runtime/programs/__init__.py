"""Other agents' command lines as models: Claude Code's ``claude`` and OpenAI's ``codex``, one process per reply.

- ``options``: permissions and timeouts of a program
- ``prompt``: a request as the text that a program reads
- ``claude``, ``codex``: the arguments of each program, and the reader of its events
- ``events``: the common base of both readers: lines, texts, and the state of a reply
- ``failures``: classifies a program's error messages
- ``conclusion``: the end of a reply, from all that is known of it
- ``process``: one process: started, fed, read, interrupted, killed
- ``handles``, ``loading``: the runtime with the programs' sessions, and its creation by ``load_model``

``prompt``, ``claude``, ``codex``, ``events``, ``failures`` and ``conclusion`` are pure.
"""
