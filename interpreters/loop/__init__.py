"""Shared parts of all interpreters: clock, mailbox, reply stream, workers and the bounds of a turn."""
