"""Chat templates: a request becomes a prompt, and the format of replies is derived from the same template."""
