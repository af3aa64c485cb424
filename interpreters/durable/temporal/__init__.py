"""Sessions as Temporal workflows. Needs the extra temporal."""
