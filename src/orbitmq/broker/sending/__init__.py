"""broker.sending: see DESIGN.md."""
