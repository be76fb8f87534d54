"""Directories of any file system: files written whole, and one owner at a time."""
