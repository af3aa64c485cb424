"""The embedding program's parts of a session: a model, tools, and functions that answer questions."""
