"""What producers and consumers ask."""
