"""Our child processes: how they start, and which parts of the parent program's environment they inherit.

- ``starting``: the only way to start a child: its module path, environment and descriptors
- ``boot``: the first steps of a child
- ``frozen``: the same for programs frozen into one file
"""
