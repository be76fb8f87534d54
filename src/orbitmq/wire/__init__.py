"""Frames, sessions, signatures and replica streams, without a socket."""
