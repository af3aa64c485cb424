"""Reports that commands print, as plain data and as lines of text."""
