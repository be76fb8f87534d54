"""One connection for both sides; dialer, listener, and a blocking socket."""
