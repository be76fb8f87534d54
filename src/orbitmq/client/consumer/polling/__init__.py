"""What ``poll`` returns next, how far it came, and whose queues it reads."""
