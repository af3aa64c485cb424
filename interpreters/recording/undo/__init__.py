"""Undo data for the files that a session's tools change, and undo itself.

``interpreters.toolbox`` announces each file change to a keeper. This package contains the keeper (``checkpoints``), its
list of changes (``_log``), the plan that restores a tree to an entry of that list (``_plan``), and the code that
restores files (``restore``).
"""
