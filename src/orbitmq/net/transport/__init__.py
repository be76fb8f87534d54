"""TCP, TLS and the machine's addresses, below connections."""
