"""store.log: see DESIGN.md."""
