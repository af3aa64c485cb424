"""Shell commands as tools.

- ``tools``: ``shell_tools``, with ``Bash``, ``BashOutput`` and ``KillShell``, and commands that outlive their call.
- ``_command``: one command, from its start to the end of all its processes.
- ``runtime.children.supervisor``: the process between us and a command, which ends all processes of the command.
- ``_output``: a command's output, bounded in memory, complete in a file, shown without control characters.
- ``environment``: the environment of a command, and its shell.
- ``sandbox``: confining a command to its directory with bubblewrap.
"""
