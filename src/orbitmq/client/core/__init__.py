"""client.core: see DESIGN.md."""
