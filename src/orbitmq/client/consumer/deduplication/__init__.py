"""Messages that are handed over once: which are being worked on, and which are done."""
