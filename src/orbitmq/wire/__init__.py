"""All that crosses a socket, without a socket: frames, headers, bodies, sessions."""
