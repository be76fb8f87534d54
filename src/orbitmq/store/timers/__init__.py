"""Messages with a delivery time: the timer log, the wheel over it, and their checkpoint."""
