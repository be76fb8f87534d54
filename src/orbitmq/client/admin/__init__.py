"""client.admin: see DESIGN.md."""
