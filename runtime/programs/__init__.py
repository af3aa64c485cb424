"""Other agents' command lines as models: Claude Code's ``claude`` and OpenAI's ``codex``, one process per reply.

- ``options``: permissions and timeouts of a program
- ``prompt``: a request as the text that a program reads
- ``claude``, ``codex``: the arguments of each program, and the reader of its events
- ``events``: the common base of both readers: lines, texts, and the state of a reply
- ``failures``: classifies a program's error messages
- ``running``, ``child``: one process: started, fed, read, interrupted, killed
- ``sessions``: finds the program's session that a conversation continues
- ``handles``, ``loading``: the runtime, and its creation by ``load_model``

``prompt``, ``claude``, ``codex``, ``events`` and ``failures`` are pure.
"""
