"""The common part of local backends: a thread that owns a model, concurrent replies, and the callers' handles."""
