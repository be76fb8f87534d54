"""What brokers, clients and operators ask a nameserver."""
