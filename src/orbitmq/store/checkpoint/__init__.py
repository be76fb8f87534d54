"""store.checkpoint: see DESIGN.md."""
