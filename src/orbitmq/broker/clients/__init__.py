"""broker.clients: see DESIGN.md."""
