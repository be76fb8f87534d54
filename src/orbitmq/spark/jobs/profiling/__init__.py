"""Profile: figures, advice, disks, the page."""
