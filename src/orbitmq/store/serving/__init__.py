"""Answers to pulls and queries."""
