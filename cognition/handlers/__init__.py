"""What happens in each live cell of the transition table, one module for each kind of input."""
