"""Rebuild: what its tasks write."""
