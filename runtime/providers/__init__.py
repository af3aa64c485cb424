"""Remote models: backends as values, their names, and the runtime that asks them over HTTP."""
