"""Constrained sampling: calls and answers that are valid by construction. Grammars from tools and formats, token masks
from grammars.
"""
