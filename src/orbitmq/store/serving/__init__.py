"""store.serving: see DESIGN.md."""
