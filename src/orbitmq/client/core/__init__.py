"""What the clients of a process share: nameservers, routes, heartbeats, broker requests."""
