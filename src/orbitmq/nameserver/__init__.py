"""A pure route table, its files and settings."""
