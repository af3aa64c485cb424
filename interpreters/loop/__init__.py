"""What every interpreter is made of: clock and mailbox, the reply as it streams, workers, what bounds a turn."""
