"""Consume queues: where in the log the messages of a queue are."""
