"""Every option of a read or a write: its names, values and errors."""
