"""Runtime info and consumer lag, for operators."""
