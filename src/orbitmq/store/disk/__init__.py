"""store.disk: see DESIGN.md."""
