"""Threads for blocking work: a pool, and functions that hand work over from asyncio."""
