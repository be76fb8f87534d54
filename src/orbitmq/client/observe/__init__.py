"""Hooks, statistics, message traces, OpenTelemetry spans."""
