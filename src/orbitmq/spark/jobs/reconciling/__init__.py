"""The parts of reconcile: what was said to be sent, what is stored, and how the two differ."""
