"""Chaos with real processes: faults by a seed, a history of all sends, laws over it."""
