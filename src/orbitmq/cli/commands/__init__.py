"""Commands that talk to a cluster or read files."""
