"""What local backends share: one thread that owns a model, many replies at once, and the handles that callers hold."""
