"""A nameserver: a pure route table, and the handlers that speak for it."""
