"""store.queues: see DESIGN.md."""
