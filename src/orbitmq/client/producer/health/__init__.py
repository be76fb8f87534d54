"""Which brokers deserve the next send."""
