"""store.index: see DESIGN.md."""
