"""Connected members, queue locks, and what the broker asks of clients."""
