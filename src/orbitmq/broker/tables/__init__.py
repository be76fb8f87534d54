"""broker.tables: see DESIGN.md."""
