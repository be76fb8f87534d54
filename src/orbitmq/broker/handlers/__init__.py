"""Request handlers, one subject per file."""
