"""Rows sent as messages."""
