"""The shapes of secrets and the search for them: the table of formats, the contexts before secrets, and encodings of
known secrets.
"""
