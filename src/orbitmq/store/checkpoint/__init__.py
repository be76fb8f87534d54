"""What is known to be on disk: checkpoint, abort and lock files, ends of queues."""
