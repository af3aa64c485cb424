"""Shell commands as tools.

=================  =====================================================================================
``tools``          ``shell_tools``: ``Bash``, ``BashOutput`` and ``KillShell``
``background``     the commands that run on when their call has ended
``running``        one command from its start to the end of all its processes
``keeper``         the program that stands between us and a command, and ends what the command began
``output``         what a command prints: bounded in memory, whole in a file, shown without control characters
``surroundings``   the environment of a command, and the shell that runs it
``sandbox``        confining a command to its directory, by bubblewrap
=================  =====================================================================================
"""
