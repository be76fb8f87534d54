"""Streaming reads: batches, progress, queues that come and go."""
