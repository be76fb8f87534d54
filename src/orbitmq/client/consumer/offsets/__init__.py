"""How far a group has consumed: at brokers, or in a local file."""
