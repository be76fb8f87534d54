"""What a message is, and its bytes on disk and in pull bodies. Knows no socket, file or clock."""
