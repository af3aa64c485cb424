"""Sessions on disk: the journal, redaction, and operations on recordings."""
