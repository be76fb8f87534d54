"""client.producer.health: see DESIGN.md."""
