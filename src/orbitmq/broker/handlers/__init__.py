"""Request handlers, one conversation per file."""
