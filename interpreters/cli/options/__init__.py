"""Options that several commands share, and the checks of their values."""
