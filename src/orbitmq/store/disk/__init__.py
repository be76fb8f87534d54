"""Every file call, files kept open, and small files replaced atomically."""
