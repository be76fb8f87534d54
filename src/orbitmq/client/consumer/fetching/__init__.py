"""Messages between brokers and user code: pulls, inboxes, flow control."""
