"""Traces: records, pairs, figures, the page."""
