"""A store read without a broker: scan, inspect, verify."""
