"""Data that outlives a session, apart from its recording."""
