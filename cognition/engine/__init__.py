"""The engine: the transition table, its handlers, and the step that applies them."""
