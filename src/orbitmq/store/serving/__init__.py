"""What pulls and queries get."""
