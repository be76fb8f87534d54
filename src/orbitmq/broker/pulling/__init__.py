"""A pull's checks and filters, and pulls held until a message arrives."""
