"""Shell commands as tools.

- ``tools``: ``shell_tools``, with ``Bash``, ``BashOutput`` and ``KillShell``.
- ``background``: commands that outlive their call.
- ``running``: one command, from its start to the end of all its processes.
- ``keeper``: the process between us and a command, which ends all processes of the command.
- ``output``: a command's output, bounded in memory, complete in a file, shown without control characters.
- ``surroundings``: the environment of a command, and its shell.
- ``sandbox``: confining a command to its directory with bubblewrap.
"""
