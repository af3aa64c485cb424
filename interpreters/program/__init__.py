"""What the embedding program brings to a session: a model, tools, and functions that answer questions."""
