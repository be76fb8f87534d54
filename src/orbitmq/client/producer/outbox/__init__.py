"""Messages that could not be sent, kept on disk and retried."""
