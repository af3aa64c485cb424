"""Sessions on a durable engine, which survives crashes of processes and machines: a run loop and small adapters."""
