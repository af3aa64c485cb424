"""Child processes: how they start, which parts of the program's environment they inherit, and how they end.

- ``start``: the only way to start a child: its module path, environment and descriptors
- ``boot``: the first steps of a child
- ``frozen``: the same for programs frozen into one file
- ``line_pipe``: messages to and from a child
- ``in_memory``: programs whose code is in no file
- ``supervised_command``: a command of another program with its keeper, the program ``supervisor``
- ``ending``: signals to a child's group, and their names
"""
