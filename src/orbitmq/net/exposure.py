"""Safe by default: who listens where other machines reach it has to say that this is meant."""

import ipaddress

from orbitmq.errors import InvalidInput

__all__ = ["check_exposure", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host; a name other than localhost may be anything.

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
    """Refuse to listen where other machines reach us, unless the caller says that this is meant.

    Raises:
        InvalidInput: ``host`` is not loopback, and ``insecure`` is False.

    """
    if not insecure and not is_loopback(host):
        raise InvalidInput(
            f"to listen on {host or 'all addresses'} lets every machine that reaches it read, "
            "write and change everything, since nobody has to say who they are; listen on "
            "127.0.0.1, or say --insecure if the network keeps others out",
            field="listen_host",
        )
