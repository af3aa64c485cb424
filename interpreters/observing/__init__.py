"""Events for user interfaces, and how they reach observers without holding up a session."""
