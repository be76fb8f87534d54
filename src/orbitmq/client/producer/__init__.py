"""client.producer: see DESIGN.md."""
