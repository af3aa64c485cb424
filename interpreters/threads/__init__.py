"""Threads for what blocks: a pool of them, and how asyncio hands work over."""
