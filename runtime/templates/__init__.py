"""Chat templates: turn a request into a prompt, and derive the format of replies from the same template."""
