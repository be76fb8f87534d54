"""Commands for operators: groups, offsets, brokers, clusters, traces."""
