"""Retention, and removal of expired files and deleted topics."""
