"""Settings, arguments and user callbacks, shared by all clients."""
