"""A session at the terminal: its agent, its questions to the user, and the slash commands."""
