"""broker.handlers.client: see DESIGN.md."""
