"""What a secret looks like: the table of formats, what stands before one, the pass that finds all, and its writings."""
