"""The key index: which records have a key."""
