"""Store directories as tables: the broker's own files, read without a broker."""
