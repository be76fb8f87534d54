"""cli.commands: see DESIGN.md."""
