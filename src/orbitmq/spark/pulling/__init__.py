"""A slice of a queue, pulled with several requests in flight."""
