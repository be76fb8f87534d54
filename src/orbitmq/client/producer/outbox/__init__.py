"""client.producer.outbox: see DESIGN.md."""
