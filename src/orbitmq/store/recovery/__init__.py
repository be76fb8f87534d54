"""A start: log, queues and index brought into agreement after a stop or a crash."""
