"""Remote models: backends as values, their names, and the runtime that sends requests to them over HTTP."""
