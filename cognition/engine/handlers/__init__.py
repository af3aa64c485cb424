"""The handlers of the transition table's live cells, a module for each kind of input."""
