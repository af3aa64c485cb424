"""Events for user interfaces, and their delivery to observers without blocking a session."""
