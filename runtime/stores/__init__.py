"""What outlives a session, beside its recording."""
