"""Queues and key index of a store made from its log alone, in parts that need each other little."""
