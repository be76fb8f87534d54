"""net.transport: see DESIGN.md."""
