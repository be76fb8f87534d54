"""store.recovery: see DESIGN.md."""
