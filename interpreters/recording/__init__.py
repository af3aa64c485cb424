"""Sessions on disk: the journal, what is kept out of it, and what is done with recordings."""
