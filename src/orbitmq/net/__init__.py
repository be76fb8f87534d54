"""Connections: one for both sides, a dialer, a listener, and a plain blocking socket."""
