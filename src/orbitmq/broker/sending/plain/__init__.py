"""Sends that need no care: taken together, from the bytes of a read to those of their answers."""
