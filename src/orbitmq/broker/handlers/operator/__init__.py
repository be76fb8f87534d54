"""broker.handlers.operator: see DESIGN.md."""
