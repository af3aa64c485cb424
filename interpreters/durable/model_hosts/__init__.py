"""Processes that host models for durable sessions: their addresses, slots and calls."""
