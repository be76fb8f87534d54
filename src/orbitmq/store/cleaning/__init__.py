"""store.cleaning: see DESIGN.md."""
