"""Batch reads: planned on the driver, read by tasks."""
