"""Replication of the log from a primary to its replicas, and what decides a send's fate."""
