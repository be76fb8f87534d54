"""SQL92 filters: expressions over the properties of a message."""
