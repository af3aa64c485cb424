"""Threads for blocking work: ``pool`` for tools and observers, ``workers`` for requests to models."""
