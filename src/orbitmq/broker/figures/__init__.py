"""broker.figures: see DESIGN.md."""
