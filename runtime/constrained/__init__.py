"""Calls and answers that are valid by construction: grammars from tools and formats, and token masks from grammars."""
