"""The start of a store: brings log, queues and index into agreement after a stop or a crash."""
