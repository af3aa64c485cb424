"""Output on the terminal: events as styled text or JSON lines, and input of lines."""
