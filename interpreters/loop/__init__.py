"""The interpreters, sync and asyncio, and their parts: driver, performers, clock, mailbox, reply stream, workers."""
