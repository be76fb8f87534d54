"""broker.pulling: see DESIGN.md."""
