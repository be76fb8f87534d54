"""The consumers: push, pull, their settings and subscriptions."""
