"""store.reader: see DESIGN.md."""
