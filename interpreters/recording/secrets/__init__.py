"""The shapes of secrets: the table of formats, the contexts before secrets, the scanner, and encodings of known
secrets.
"""
