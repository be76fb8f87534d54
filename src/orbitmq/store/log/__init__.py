"""The commit log: appending, segments, flushing."""
