"""The address by which other machines reach this one."""

import socket
from typing import Final

__all__ = ["own_host"]

_ELSEWHERE: Final = ("192.0.2.1", 9)
"""An address for documentation. Connecting a datagram socket to it sends nothing; the system only
chooses a route, and with it the local address."""


def own_host() -> str:
    """Return the address that other machines see, or loopback without a network.

    >>> own_host().count(".")
    3
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:  # no route
            return "127.0.0.1"
        return str(probe.getsockname()[0])
