"""Servers without authentication listen on loopback only, unless that is explicitly allowed."""

import ipaddress

from orbitmq.errors import InvalidInput

__all__ = ["check_exposure", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host; False for names except localhost.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "db.local")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_exposure(host: str, *, insecure: bool) -> None:
    """Check that other machines can't reach a listening address, unless ``insecure`` allows it."""
    if not insecure and not is_loopback(host):
        raise InvalidInput(
            f"listening on {host or 'all addresses'} lets every machine that can reach it read, "
            "write and change everything, since there is no authentication; listen on 127.0.0.1, "
            "or add --insecure if the network is trusted",
            field="listen_host",
        )
