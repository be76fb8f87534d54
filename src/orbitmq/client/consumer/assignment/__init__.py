"""Which queues a member of a group owns: strategies, rebalance, locks."""
