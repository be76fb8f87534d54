"""Counters by topic, group and queue, and throughput."""
