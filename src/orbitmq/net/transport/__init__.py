"""TCP, TLS and addresses of the machine: what a connection stands on."""
