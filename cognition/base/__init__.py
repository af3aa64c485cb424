"""Utilities for every package of the core: checked values, strict JSON, text safe to display, ids and errors."""
