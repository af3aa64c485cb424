"""Agents: the faces ``Agent`` and ``AsyncAgent``, their options, and what a run gives."""
