"""broker.reports: see DESIGN.md."""
