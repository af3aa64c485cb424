"""The files that a session's tools have changed, and the way back: what is kept beside a recording, and undo.

``interpreters.toolbox`` changes files and tells a keeper of each change before it is made. Here stands that keeper
(``checkpoints``), the list of changes that it writes (``log``), what has to happen for a tree to be as it was at some
point of that list (``planning``), and what puts files back (``undoing``).
"""
