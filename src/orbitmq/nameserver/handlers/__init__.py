"""What a nameserver answers: one module per conversation, each a table of request codes."""
