"""What a message is: model, properties, ids, and the bytes of a stored record."""
