"""What mqadmin and other tools ask."""
