"""Tests of what poll returns, how far it came, and whose queues it reads."""
