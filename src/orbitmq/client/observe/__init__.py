"""client.observe: see DESIGN.md."""
