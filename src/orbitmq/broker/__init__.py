"""Settings, state, registration, and the broker as a whole."""
