"""cli.servers: see DESIGN.md."""
