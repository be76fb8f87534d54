"""Election of a group's master: who leads, since when, and who has all that was acknowledged."""
