"""The client: producers, and what they stand on."""
