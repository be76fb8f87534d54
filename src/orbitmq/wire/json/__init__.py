"""wire.json: see DESIGN.md."""
